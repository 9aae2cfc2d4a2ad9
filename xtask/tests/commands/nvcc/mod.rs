//! A workspace with a script in place of nvcc.

use std::fs;

use warpfold_suite_build::machine::Machine;
use warpfold_suite_build::workspace::Workspace;

use crate::fake;

/// Answers to queries and logging, common to all scripts. The file `version` has the compiler's version.
const QUESTIONS: &str = r#"case "$1" in
--version) echo "release 13.0, V$(cat "$ROOT/version")"; exit;;
--list-gpu-code) printf 'sm_75\nsm_80\nsm_90\n'; exit;;
esac
echo "$* flags=$NVCC_APPEND_FLAGS" >>"$ROOT/nvcc.log"
"#;

pub(crate) struct Nvcc {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) machine: Machine,
}

impl Nvcc {
    pub(crate) fn new(script: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("with nvcc ").tempdir().unwrap();
        let root = folder.path();
        let workspace = fake::workspace(root, "", "");
        fs::create_dir_all(&workspace.target).unwrap();
        fake::program(root, "nvcc", &format!("{QUESTIONS}{script}"));
        fake::write(root, "version", "13.0.88");
        let machine = Machine::empty(root).with("PATH", root.join("bin").display().to_string());
        Self { folder, workspace, machine }
    }

    pub(crate) fn set_version(&self, version: &str) {
        self.write("version", version);
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fake::write(self.folder.path(), path, text);
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("nvcc.log")).unwrap_or_default()
    }
}
