//! Installs rust-src from Debian's package of the toolchain's release.
//!
//! The download needs no privileges: apt is given separate folders, and its configuration of mirrors,
//! proxies and keys stays in effect.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::Provision;

const PACKAGE: &str = "rust-src";

/// Suites to search on the machine's mirror if its configured suites lack the compiler's release. The
/// package fits every Debian (`Architecture: all`). Backports are first, because they keep a compiler
/// release longest. The next Debian release and the development suite (`sid`) get a compiler release
/// earlier, but replace it sooner.
const SUITES: &[&str] = &["trixie-backports", "forky", "sid"];

/// The keyring of all these suites. Without it apt uses the machine's own keys.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub(super) fn get(provision: &Provision) -> Result<()> {
    let workplace = provision.workplace()?;
    let package = download(provision, workplace.path())?;
    let unpacked = unpack(provision, &package, workplace.path())?;
    provision.put(&unpacked)
}

fn download(provision: &Provision, folder: &Path) -> Result<PathBuf> {
    let mut said = Vec::new();
    let own = Apt { provision, folder, options: Vec::new() };
    match own.download() {
        Ok(package) => return Ok(package),
        Err(error) => said.push(format!("configured sources: {error:#}")),
    }
    let mirror = own.mirror()?;
    for suite in SUITES {
        match own.with_suite(&mirror, suite).and_then(|apt| apt.download()) {
            Ok(package) => return Ok(package),
            Err(error) => said.push(format!("{suite}: {error:#}")),
        }
    }
    anyhow::bail!("{}", said.join("; "))
}

struct Apt<'a> {
    provision: &'a Provision,
    folder: &'a Path,
    options: Vec<String>,
}

impl<'a> Apt<'a> {
    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        self.provision.ask(program, |command| {
            for option in &self.options {
                command.args(["-o", option]);
            }
            // Downloads go to the current folder.
            command.args(args).current_dir(self.folder);
        })
    }

    /// Returns the machine's mirror of Debian itself, not that of its security updates or of another
    /// origin.
    fn mirror(&self) -> Result<String> {
        // `--no-release-info` makes this work before the first `apt-get update`.
        let args = ["indextargets", "--no-release-info", "--format", "$(REPO_URI)"];
        let targets = self.run("apt-get", &args)?;
        let mirror = targets.lines().map(str::trim).find(|uri| uri.ends_with("/debian/"));
        mirror
            .map(str::to_owned)
            .context("apt has no mirror of Debian configured (a URI that ends in /debian/)")
    }

    /// Returns a copy that reads only one suite of the mirror, and keeps lists and caches in the folder.
    fn with_suite(&self, mirror: &str, suite: &str) -> Result<Self> {
        let home = self.folder.join(suite);
        for made in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(home.join(made))?;
        }
        let signed =
            if Path::new(KEYRING).is_file() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        let sources = home.join("sources.list");
        fs::write(&sources, format!("deb {signed}{mirror} {suite} main\n"))?;
        let option = |name: &str, path: &Path| format!("{name}={}", path.display());
        let options = vec![
            option("Dir::Etc::sourcelist", &sources),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            option("Dir::State::lists", &home.join("lists")),
            option("Dir::Cache", &home.join("cache")),
            "Acquire::Languages=none".to_owned(),
            // An unreachable mirror must time out soon: other suites follow, and the user waits.
            "Acquire::Retries=1".to_owned(),
            "Acquire::http::Timeout=20".to_owned(),
            "Acquire::https::Timeout=20".to_owned(),
            // As root, apt would run the download as a user who cannot enter a private folder.
            "APT::Sandbox::User=root".to_owned(),
        ];
        let apt = Self { provision: self.provision, folder: self.folder, options };
        apt.run("apt-get", &["--quiet", "--error-on=any", "update"])?;
        Ok(apt)
    }

    fn download(&self) -> Result<PathBuf> {
        let release = &self.provision.release;
        let table = self.run("apt-cache", &["madison", PACKAGE])?;
        let versions: Vec<&str> =
            table.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
        let version = versions.iter().find(|version| is_of_release(version, release));
        let others = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
        let version =
            version.with_context(|| format!("{release} is not available (available: {others})"))?;
        self.run("apt-get", &["--quiet", "download", &format!("{PACKAGE}={version}")])?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
        let mut found = fs::read_dir(self.folder)?.flatten().map(|entry| entry.path());
        found.find(is_package).context("apt-get downloaded nothing")
    }
}

/// Returns whether a package version is of an upstream release: `1.2.3+dfsg1-2` of `1.2.3`.
fn is_of_release(version: &str, release: &str) -> bool {
    version.strip_prefix(release).is_some_and(|rest| rest.starts_with(['+', '-', '~']))
}

/// Unpacks the library only; the compiler's source in the same package is ten times as large.
fn unpack(provision: &Provision, package: &Path, folder: &Path) -> Result<PathBuf> {
    let inside = format!("./usr/src/rustc-{}/library", provision.release);
    let command = |program: &str| {
        let mut command = Command::new(program);
        if let Some(path) = &provision.path {
            command.env("PATH", path);
        }
        command
    };
    let mut archive = command("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("dpkg-deb cannot be started")?;
    let stream = archive.stdout.take().context("the output of dpkg-deb is not captured")?;
    let tar = command("tar").args(["-x", "-C"]).arg(folder).arg(&inside).stdin(stream).output();
    let archive = archive.wait();
    let tar = tar.context("tar cannot be started")?;
    let said = String::from_utf8_lossy(&tar.stderr);
    ensure!(tar.status.success(), "tar: {}", said.lines().next().unwrap_or("failed"));
    ensure!(archive?.success(), "dpkg-deb cannot read the package");
    Ok(folder.join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_version_is_of_one_release() {
        assert!(is_of_release("1.95.0+dfsg1-2~bpo13+1", "1.95.0"));
        assert!(is_of_release("1.95.0-1", "1.95.0"));
        assert!(!is_of_release("1.95.01-1", "1.95.0"));
        assert!(!is_of_release("1.96.0+dfsg1-1", "1.95.0"));
        assert!(!is_of_release("1.95.0.1-1", "1.95.0"));
    }
}
