//! PTX for the tests.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use warpfold_suite::{PTX_DIR, PtxStore};

/// Returns the folder of the current kernels' PTX, which is built first if it is out of date.
/// `WARPFOLD_PTX_DIR` names a folder to use unchanged, for machines without a compiler.
pub(crate) fn ptx_root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        if env::var_os(PTX_DIR).is_none() {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
            let built =
                Command::new(env!("CARGO")).current_dir(root).args(["xtask", "build-ptx"]).output();
            let built = built.unwrap();
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        }
        PtxStore::locate(None).unwrap_or_else(|error| panic!("{error}")).root().to_owned()
    })
}
