//! The rank of a process in a world, and the address of rank 0.

use std::{env, time::Duration};

use crate::{Error, Result, Way, error::in_one_line};

/// The maximum number of ranks, which is also the maximum number of devices of a group.
const MOST_RANKS: u32 = warpfold_abi::meeting::MOST_MEMBERS - 1;

struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    /// Variable with the number of ranks on this host, or with the number of hosts.
    local: Local,
    /// Variables that together distinguish the jobs on a host.
    job: &'static [&'static str],
}

enum Local {
    Ranks(&'static str),
    Hosts(&'static str),
    Unknown,
}

/// Known launchers. The first one whose variables are set is used, so launchers that other launchers may
/// start come first.
const LAUNCHERS: [Launcher; 4] = [
    Launcher {
        name: "torchrun",
        rank: "RANK",
        size: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        local: Local::Unknown,
        job: &["TORCHELASTIC_RUN_ID"],
    },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local: Local::Ranks("OMPI_COMM_WORLD_LOCAL_SIZE"),
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Launcher {
        name: "MPICH",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local: Local::Ranks("MPI_LOCALNRANKS"),
        job: &["PMI_JOBID", "PMI_PORT"],
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        local: Local::Hosts("SLURM_STEP_NUM_NODES"),
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
];

const ADDRESS: &str = "WARPFOLD_ADDRESS";
const TIMEOUT: &str = "WARPFOLD_TIMEOUT";
const WAY: &str = "WARPFOLD_WAY";

/// The same as PyTorch's default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Longer timeouts could overflow when added to an `Instant`.
const MAX_TIMEOUT: Duration = Duration::from_hours(100 * 365 * 24);

/// The rank of this process, the number of ranks, and the address of rank 0, from which a
/// [`World`](crate::World) is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    local_rank: u32,
    pub(crate) address: String,
    pub(crate) job: u64,
    pub(crate) timeout: Duration,
    pub(crate) way: Option<Way>,
}

impl Rendezvous {
    /// Reads the environment variables that the launcher of this process has set:
    ///
    /// | launcher | rank and size | host of rank 0 |
    /// |---|---|---|
    /// | torchrun, or by hand | `RANK`, `WORLD_SIZE` | `MASTER_ADDR`, at the port after `MASTER_PORT` |
    /// | mpirun of Open MPI | `OMPI_COMM_WORLD_RANK`, `…_SIZE` | this host, if all ranks are there |
    /// | mpiexec of MPICH | `PMI_RANK`, `PMI_SIZE` | this host, if all ranks are there |
    /// | srun | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` | the first host of `SLURM_STEP_NODELIST` |
    ///
    /// For any launcher, `WARPFOLD_ADDRESS=host:port` sets the address of rank 0, `WARPFOLD_TIMEOUT` the
    /// number of seconds that ranks wait for each other, and `WARPFOLD_WAY`, `nccl` or `copies`, the
    /// [`Way`] by which they exchange partial results. Without a launcher there is one rank.
    ///
    /// # Errors
    /// [`Error::World`] for variables that are not numbers or contradict each other, and if no variable
    /// gives the host of rank 0.
    pub fn from_env() -> Result<Self> {
        Self::from_vars(&|name| env::var(name).ok())
    }

    /// Creates the rendezvous of process `rank` of `size`. Process 0 listens at `address` (`host:port`).
    ///
    /// # Errors
    /// [`Error::World`] for a rank that is not less than the size, and for a size of 0 or above 31.
    pub fn new(rank: u32, size: u32, address: impl Into<String>) -> Result<Self> {
        if !(1..=MOST_RANKS).contains(&size) {
            return refuse(format!("{size} ranks; a world has 1 to {MOST_RANKS}"));
        }
        if rank >= size {
            return refuse(format!("rank {rank} of {size}; ranks are 0 to {}", size - 1));
        }
        let (local_rank, address, job, timeout, way) = (rank, address.into(), 0, DEFAULT_TIMEOUT, None);
        Ok(Self { rank, size, local_rank, address, job, timeout, way })
    }

    /// Sets the way by which ranks exchange partial results, the same for all ranks: [`Way::Nccl`], or
    /// [`Way::Copies`] over connections with rank 0. The default is NCCL if all ranks have the same
    /// version of it and a GPU of their own.
    #[must_use]
    pub fn with_way(self, way: Way) -> Self {
        Self { way: Some(way), ..self }
    }

    /// Sets the rank among the processes on the same host, which selects the device.
    #[must_use]
    pub fn with_local_rank(self, local_rank: u32) -> Self {
        Self { local_rank, ..self }
    }

    /// Sets the time that a rank waits for the others when it joins and at each exchange. The default is
    /// 600 seconds, the maximum 100 years.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.min(MAX_TIMEOUT), ..self }
    }

    /// Returns the rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the rank of this process among those on its host.
    pub fn local_rank(&self) -> u32 {
        self.local_rank
    }

    fn from_vars(var: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |name: &str| -> Result<Option<u32>> {
            let Some(text) = var(name) else { return Ok(None) };
            match text.trim().parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => refuse(format!("{name} is `{text}`; give a whole number")),
            }
        };
        let timeout = match number(TIMEOUT)? {
            Some(0) => return refuse(format!("{TIMEOUT} is 0; give 1 second or more")),
            seconds => seconds.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds.into())),
        };
        let way = match var(WAY).as_deref() {
            None | Some("") => None,
            Some("nccl") => Some(Way::Nccl),
            Some("copies") => Some(Way::Copies),
            Some(other) => return refuse(format!("{WAY} is `{other}`; give nccl or copies")),
        };
        let Some(launcher) = LAUNCHERS.iter().find(|launcher| var(launcher.size).is_some()) else {
            return Ok(Self { way, ..Self::new(0, 1, "")?.with_timeout(timeout) });
        };
        let size = number(launcher.size)?.expect("it is there");
        let Some(rank) = number(launcher.rank)? else {
            return refuse(format!("{} is set, and {} is not; set both", launcher.size, launcher.rank));
        };
        let named = |error| match error {
            Error::World { reason } => {
                Error::World { reason: format!("{reason}, by {} and {}", launcher.rank, launcher.size) }
            }
            other => other,
        };
        let made = Self::new(rank, size, "").map_err(named)?.with_timeout(timeout);
        let made = Self { local_rank: number(launcher.local_rank)?.unwrap_or(rank), way, ..made };
        if size == 1 {
            return Ok(made);
        }
        let parts: Vec<String> = launcher.job.iter().filter_map(|name| var(name)).collect();
        let job = fnv1a(&parts.join("."));
        let port = (!parts.is_empty()).then_some(20_000 + (job % 12_000) as u16);
        let Some(address) = address(launcher, var, &number, size, port)? else {
            return refuse(format!(
                "{} does not say where rank 0 of {size} is; set {ADDRESS}=host:port in all ranks, a free \
                 port of its host",
                launcher.name
            ));
        };
        Ok(Self { address, job, ..made })
    }
}

fn address(
    launcher: &Launcher,
    var: &dyn Fn(&str) -> Option<String>,
    number: &impl Fn(&str) -> Result<Option<u32>>,
    size: u32,
    port: Option<u16>,
) -> Result<Option<String>> {
    if let Some(address) = var(ADDRESS) {
        let valid = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !valid {
            return refuse(format!("{ADDRESS} is `{address}`; give host:port"));
        }
        return Ok(Some(address));
    }
    let at = |host: String, port: u16| match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    if let Some(host) = var("MASTER_ADDR") {
        // The launcher itself listens at `MASTER_PORT`.
        let port = match number("MASTER_PORT")? {
            None => port,
            Some(port @ 1..=65_534) => Some(port as u16 + 1),
            Some(port) => return refuse(format!("MASTER_PORT is {port}; give 1 to 65534")),
        };
        return Ok(port.map(|port| at(host, port)));
    }
    let here = match launcher.local {
        Local::Ranks(name) => number(name)? == Some(size),
        Local::Hosts(name) => number(name)? == Some(1),
        Local::Unknown => false,
    };
    let Some(port) = port else { return Ok(None) };
    if here {
        return Ok(Some(at("127.0.0.1".to_owned(), port)));
    }
    let hosts = match launcher.local {
        Local::Hosts(_) => var("SLURM_STEP_NODELIST"),
        _ => None,
    };
    Ok(hosts.and_then(|hosts| first_host(&hosts)).map(|host| at(host, port)))
}

/// Returns the first host of a list in Slurm's format: `gpu[03-07,9],login`.
fn first_host(list: &str) -> Option<String> {
    let (mut host, mut rest) = (String::new(), list);
    loop {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        host.push_str(&rest[..end]);
        let Some(ranges) = rest[end..].strip_prefix('[') else { break };
        let (ranges, behind) = ranges.split_once(']')?;
        host.push_str(ranges.split(['-', ',']).next()?);
        rest = behind;
    }
    (!host.is_empty()).then_some(host)
}

pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns an error in one line, because environment variables may contain line breaks.
fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::World { reason: in_one_line(&reason) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Result<Rendezvous> {
        let vars: Vec<(String, String)> =
            vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Rendezvous::from_vars(&|name| {
            vars.iter().find(|(has, _)| has == name).map(|(_, value)| value.clone())
        })
    }

    fn refused(vars: &[(&str, &str)]) -> String {
        of(vars).expect_err("refused").to_string()
    }

    const OPEN_MPI: [(&str, &str); 5] = [
        ("OMPI_COMM_WORLD_RANK", "2"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ("PMIX_NAMESPACE", "host-41812@1"),
    ];

    const SLURM: [(&str, &str); 7] = [
        ("SLURM_PROCID", "3"),
        ("SLURM_STEP_NUM_TASKS", "8"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_STEP_NUM_NODES", "4"),
        ("SLURM_STEP_NODELIST", "gpu[03-05,9]-a,login"),
        ("SLURM_JOB_ID", "5155"),
        ("SLURM_STEP_ID", "0"),
    ];

    #[test]
    fn rank_size_and_address_are_read_for_each_launcher() {
        let alone = of(&[]).unwrap();
        assert_eq!((alone.rank, alone.size, alone.local_rank, alone.way), (0, 1, 0, None));
        for (text, way) in [("nccl", Some(Way::Nccl)), ("copies", Some(Way::Copies)), ("", None)] {
            assert_eq!(of(&[("WARPFOLD_WAY", text)]).unwrap().way, way);
            assert_eq!(of(&[&OPEN_MPI[..], &[("WARPFOLD_WAY", text)]].concat()).unwrap().way, way);
        }

        let torchrun = [
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node7"),
            ("MASTER_PORT", "29500"),
        ];
        let found = of(&torchrun).unwrap();
        assert_eq!((found.rank, found.size, found.local_rank), (5, 8, 1));
        assert_eq!(found.address, "node7:29501");
        let ipv6 = [&torchrun[..3], &[("MASTER_ADDR", "fe80::1"), ("MASTER_PORT", "29500")]].concat();
        assert_eq!(of(&ipv6).unwrap().address, "[fe80::1]:29501");

        let found = of(&OPEN_MPI).unwrap();
        assert_eq!((found.rank, found.size, found.local_rank), (2, 4, 2));
        let port = found.address.strip_prefix("127.0.0.1:").unwrap().parse::<u16>().unwrap();
        assert!((20_000..32_000).contains(&port));
        let mut other = OPEN_MPI;
        other[4].1 = "host-41812@2";
        assert_ne!(of(&other).unwrap().job, found.job);

        let mpich = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1")];
        let there = [&mpich[..], &[("MPI_LOCALNRANKS", "2"), ("PMI_JOBID", "77")]].concat();
        assert!(of(&there).unwrap().address.starts_with("127.0.0.1:"));

        let found = of(&SLURM).unwrap();
        assert_eq!((found.rank, found.size, found.local_rank), (3, 8, 1));
        assert!(found.address.starts_with("gpu03-a:"), "{}", found.address);
        let mut one_host = SLURM;
        one_host[3].1 = "1";
        assert!(of(&one_host).unwrap().address.starts_with("127.0.0.1:"));

        // The user's address takes precedence over the launcher's.
        let own =
            [&SLURM[..], &[("WARPFOLD_ADDRESS", "10.0.0.1:7000"), ("WARPFOLD_TIMEOUT", "9")]].concat();
        let found = of(&own).unwrap();
        assert_eq!((found.address.as_str(), found.timeout), ("10.0.0.1:7000", Duration::from_secs(9)));
        // An Open MPI launcher in a Slurm job is used, not Slurm.
        let both = [&SLURM[..], &OPEN_MPI[..]].concat();
        assert_eq!(of(&both).unwrap().size, 4);
    }

    #[test]
    fn inconsistent_variables_are_named() {
        assert_eq!(refused(&[("WORLD_SIZE", "4")]), "WORLD_SIZE is set, and RANK is not; set both");
        assert_eq!(refused(&[("RANK", "x"), ("WORLD_SIZE", "4")]), "RANK is `x`; give a whole number");
        assert_eq!(
            refused(&[("RANK", "\n"), ("WORLD_SIZE", "4")]),
            "RANK is `\\n`; give a whole number"
        );
        assert_eq!(
            refused(&[("RANK", "4"), ("WORLD_SIZE", "4")]),
            "rank 4 of 4; ranks are 0 to 3, by RANK and WORLD_SIZE"
        );
        assert_eq!(
            refused(&[("RANK", "0"), ("WORLD_SIZE", "32")]),
            "32 ranks; a world has 1 to 31, by RANK and WORLD_SIZE"
        );
        assert_eq!(
            refused(&[("RANK", "0"), ("WORLD_SIZE", "2")]),
            "torchrun does not say where rank 0 of 2 is; set WARPFOLD_ADDRESS=host:port in all ranks, a \
             free port of its host"
        );
        // Open MPI does not name the hosts.
        let mut hosts = OPEN_MPI;
        hosts[3].1 = "2";
        assert!(refused(&hosts).starts_with("Open MPI does not say where rank 0 of 4 is"));
        for address in ["node7", ":7000", "node7:", "node7:0", "node7:70000"] {
            let given = [&OPEN_MPI[..], &[("WARPFOLD_ADDRESS", address)]].concat();
            assert_eq!(refused(&given), format!("WARPFOLD_ADDRESS is `{address}`; give host:port"));
        }
        let port = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "65535")];
        assert_eq!(refused(&port), "MASTER_PORT is 65535; give 1 to 65534");
        assert_eq!(refused(&[("WARPFOLD_WAY", "NCCL")]), "WARPFOLD_WAY is `NCCL`; give nccl or copies");
        assert_eq!(
            refused(&[("WARPFOLD_TIMEOUT", "0")]),
            "WARPFOLD_TIMEOUT is 0; give 1 second or more"
        );
    }

    #[test]
    fn first_host_of_a_slurm_list_is_found() {
        let cases = [
            ("login", "login"),
            ("a,b", "a"),
            ("gpu[03-07,9]", "gpu03"),
            ("gpu[3,5]-ib,z", "gpu3-ib"),
            ("n[1-2]c[4-5],m", "n1c4"),
        ];
        for (list, first) in cases {
            assert_eq!(first_host(list).as_deref(), Some(first), "{list}");
        }
        assert_eq!(first_host("gpu[3"), None);
        assert_eq!(first_host(""), None);
    }
}
