//! The memory that this process may use: all of the machine's, unless `ulimit -v` or a Linux control
//! group (a container has one) sets a lower limit.

use std::fs;
use std::path::{Path, PathBuf};

/// Assumed memory of a host that does not report its size.
const AT_LEAST: u64 = 8 << 30;

/// Returns the bytes of memory that this process may use in total: the minimum of the machine's memory,
/// the address space limit, and the limits of the process's control groups and their ancestors.
pub(crate) fn host_memory() -> u64 {
    let host = Host::this();
    let machine = host.machine("MemTotal:").unwrap_or(AT_LEAST).min(host.addresses());
    host.groups().iter().fold(machine, |least, group| least.min(group.limit))
}

/// Returns the bytes that this process may still allocate after `taken` bytes were allocated. Pages are
/// assigned on first touch, so `taken` differs from the bytes that the system counts as used.
pub(crate) fn room(taken: u64) -> u64 {
    Host::this().room(taken)
}

#[derive(Debug, PartialEq, Eq)]
struct Group {
    limit: u64,
    /// Bytes in use, without pages of the file cache, which the system can drop.
    used: u64,
}

/// Names of files and entries in one of the two versions of control groups.
struct Version {
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Entry of `memory.stat` that counts pages of the file cache, which the system can drop.
    droppable: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        mount: "sys/fs/cgroup",
        limit: "memory.max",
        used: "memory.current",
        droppable: "inactive_file ",
    },
    Version {
        mount: "sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        droppable: "total_inactive_file ",
    },
];

/// The system's files, below a root that differs from `/` only in tests.
struct Host {
    root: PathBuf,
}

impl Host {
    fn this() -> Self {
        Self { root: "/".into() }
    }

    fn text(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    /// Returns a line of `/proc/meminfo` in bytes.
    fn machine(&self, name: &str) -> Option<u64> {
        let text = self.text("proc/meminfo");
        let kib = text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix("kB")?;
        kib.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
    }

    /// Returns the allocated and the resident bytes of this process.
    fn own(&self) -> (u64, u64) {
        const PAGE: u64 = 4096;
        let text = self.text("proc/self/statm");
        let mut pages = text.split_ascii_whitespace().map(|pages| pages.parse::<u64>().unwrap_or(0));
        let mut bytes = || pages.next().unwrap_or(0).saturating_mul(PAGE);
        (bytes(), bytes())
    }

    fn addresses(&self) -> u64 {
        let text = self.text("proc/self/limits");
        let line = text.lines().find_map(|line| line.strip_prefix("Max address space"));
        // "unlimited" does not parse.
        let soft = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        soft.unwrap_or(u64::MAX)
    }

    fn room(&self, taken: u64) -> u64 {
        let machine = self.machine("MemAvailable:").unwrap_or(u64::MAX);
        let free = |group: &Group| group.limit.saturating_sub(group.used);
        let available = self.groups().iter().fold(machine, |least, group| least.min(free(group)));
        let (given, resident) = self.own();
        let room = available.saturating_add(resident).saturating_sub(taken);
        room.min(self.addresses().saturating_sub(given))
    }

    /// Returns the control groups of this process and all their ancestors, except those without a limit.
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for line in self.text("proc/self/cgroup").lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let version = match controllers {
                "" => &VERSIONS[0],
                _ if controllers.split(',').any(|controller| controller == "memory") => &VERSIONS[1],
                _ => continue,
            };
            // In a container, the process's group may be mounted as the root, although `path` is the
            // group's path outside of the container.
            let folders = Path::new(path.trim_start_matches('/')).ancestors();
            groups.extend(
                folders.filter_map(|folder| self.group(version, &Path::new(version.mount).join(folder))),
            );
        }
        groups
    }

    fn group(&self, version: &Version, folder: &Path) -> Option<Group> {
        let number = |name: &str| self.text(folder.join(name)).trim().parse::<u64>().ok();
        // "max" does not parse, and is no limit.
        let limit = number(version.limit)?;
        let statistics = self.text(folder.join("memory.stat"));
        let droppable =
            statistics.lines().find_map(|line| line.strip_prefix(version.droppable)?.parse().ok());
        let used = number(version.used).unwrap_or(0).saturating_sub(droppable.unwrap_or(0));
        Some(Group { limit, used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files(Host);

    impl Files {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("warpfold-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("below the root")).expect("writable");
                fs::write(path, text).expect("writable");
            }
            Self(Host { root })
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.root);
        }
    }

    #[test]
    fn meminfo_fields_are_parsed() {
        let meminfo = "MemTotal:       24684096 kB\nMemAvailable:    1000 kB\n";
        let files = Files::new("machine", &[("proc/meminfo", meminfo)]);
        assert_eq!(files.0.machine("MemTotal:"), Some(24_684_096 << 10));
        assert_eq!(files.0.machine("MemAvailable:"), Some(1000 << 10));
        assert_eq!(files.0.machine("MemFree:"), None);
        assert_eq!(files.0.groups(), []);
        assert!(host_memory() > 0 && room(u64::MAX) == 0);
    }

    #[test]
    fn untouched_allocations_reduce_room() {
        let files = Files::new(
            "room",
            &[("proc/meminfo", "MemAvailable: 1000 kB\n"), ("proc/self/statm", "900 100 50 1 0 80 0\n")],
        );
        assert_eq!(files.0.room(0), 1000 * 1024 + 100 * 4096);
        assert_eq!(files.0.room(1_000_000), 1000 * 1024 + 100 * 4096 - 1_000_000);
        assert_eq!(files.0.room(2_000_000), 0);
    }

    #[test]
    fn address_space_limit_reduces_room() {
        let limits = |soft: &str| {
            format!("Limit  Soft Limit\nMax address space    {soft}    unlimited   bytes\n")
        };
        for (name, soft, room) in
            [("limit", "1000000", 1_000_000 - 100 * 4096), ("none", "unlimited", 1 << 20)]
        {
            let files = Files::new(
                name,
                &[
                    ("proc/meminfo", "MemAvailable: 1024 kB\n"),
                    ("proc/self/statm", "100 0 50 1 0 80 0\n"),
                    ("proc/self/limits", &limits(soft)),
                ],
            );
            assert_eq!(files.0.room(0), room, "{soft}");
        }
    }

    #[test]
    fn outer_cgroup_limits_reduce_room() {
        let files = Files::new(
            "second",
            &[
                ("proc/self/cgroup", "0::/outer/inner\n"),
                ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
                ("sys/fs/cgroup/outer/memory.max", "1000\n"),
                ("sys/fs/cgroup/outer/memory.current", "700\n"),
                ("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 100\nactive_file 7\n"),
            ],
        );
        assert_eq!(files.0.groups(), [Group { limit: 1000, used: 600 }]);
        assert_eq!(files.0.room(0), 400);
    }

    #[test]
    fn cgroup_v1_limits_are_read() {
        let files = Files::new(
            "first",
            &[
                ("proc/self/cgroup", "5:cpu:/\n4:cpu,memory:/outside/name\n0::/\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "50\n"),
                ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 20\n"),
            ],
        );
        assert_eq!(files.0.groups(), [Group { limit: 2000, used: 30 }]);
    }
}
