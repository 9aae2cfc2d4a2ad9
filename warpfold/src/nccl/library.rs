//! Finds `libnccl.so.2` and opens it.

use std::{
    env,
    error::Error as StdError,
    ffi::{CStr, c_int},
    mem::{self, ManuallyDrop},
    sync::OnceLock,
};

use libloading::os::unix::{Library as File, RTLD_LOCAL, RTLD_NOW};

use super::{Code, Functions, OLDEST, PATH_VARIABLE, RawCommunicator, SUCCESS, UniqueId, Version};
use crate::{Error, Result};

const LIBRARY: &str = "libnccl.so.2";

pub(crate) struct Library {
    pub(super) functions: Functions,
    pub(crate) version: Version,
    _file: ManuallyDrop<File>,
}

impl Library {
    /// Returns NCCL, loaded by the first call: the library that `WARPFOLD_LIBNCCL` names, else the
    /// `libnccl.so.2` that the dynamic linker finds.
    pub(crate) fn load() -> Result<&'static Self> {
        static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let named = env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty());
            open(named.as_deref().unwrap_or(LIBRARY.as_ref())).map_err(|reason| match named {
                None => format!(
                    "no NCCL: {reason}; install NVIDIA's libnccl2, {OLDEST} or newer, or set \
                     {PATH_VARIABLE} to the path of its {LIBRARY}"
                ),
                Some(_) => format!(
                    "no NCCL: {reason}; unset {PATH_VARIABLE}, or set it to the path of the {LIBRARY} \
                     of NCCL {OLDEST} or newer"
                ),
            })
        });
        found.as_ref().map_err(|reason| Error::Nccl { reason: reason.clone() })
    }

    pub(crate) fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; UniqueId::BYTES]);
        // SAFETY: the function writes `UniqueId::BYTES` bytes.
        let code = unsafe { (self.functions.ncclGetUniqueId)(&raw mut id) };
        self.check(code, "creating an id", None).map(|()| id)
    }

    pub(super) fn check(
        &self,
        code: Code,
        doing: &str,
        communicator: Option<RawCommunicator>,
    ) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the communicator, if there is one, is alive. Each text is null or a string of NCCL
        // that is valid until this thread's next call.
        let (what, last) = unsafe {
            let last = (self.functions.ncclGetLastError)(communicator.unwrap_or_default());
            (text((self.functions.ncclGetErrorString)(code)), text(last))
        };
        let more = if last.is_empty() { String::new() } else { format!(": {last}") };
        let version = self.version;
        Err(Error::Nccl { reason: format!("NCCL {version}: {doing} failed with {what}{more}") })
    }
}

/// # Safety
/// `string` must be null or a valid string.
unsafe fn text(string: *const std::ffi::c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: the string is not null, and so it is valid.
    let said = unsafe { CStr::from_ptr(string) }.to_string_lossy();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn open(path: &std::ffi::OsStr) -> Result<Library, String> {
    // SAFETY: loading a library runs its initialisers. They are those of the installed NCCL, or of the
    // file that the user has named, which is as trusted as any library that the dynamic linker loads.
    let file =
        unsafe { File::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| innermost(&error))?;
    // Never unloaded: a static `Library` has pointers to the functions.
    let file = ManuallyDrop::new(file);
    let name = path.to_string_lossy();
    // SAFETY: only NCCL has a function `ncclGetVersion`, with the same type in all versions.
    let version = unsafe { version_of(&file) };
    let version = version.ok_or_else(|| format!("{name} is not NCCL"))?;
    if version < OLDEST {
        return Err(format!("{name} is NCCL {version}, older than {OLDEST}"));
    }
    // SAFETY: NCCL has these functions, with these types, in `OLDEST` and newer versions.
    let functions = unsafe { functions(&file) };
    let functions =
        functions.map_err(|missing| format!("{name}, NCCL {version}, has no `{missing}`"))?;
    Ok(Library { functions, version, _file: file })
}

/// # Safety
/// If the file has a function `ncclGetVersion`, it must be NCCL's.
unsafe fn version_of(file: &File) -> Option<Version> {
    let mut version: c_int = 0;
    // SAFETY: a function of this name is NCCL's, so it has this type, and writes one number.
    let code = unsafe {
        let function = file.get::<unsafe extern "C" fn(*mut c_int) -> Code>(c"ncclGetVersion").ok()?;
        function(&raw mut version)
    };
    (code == SUCCESS).then_some(Version(version))
}

macro_rules! find {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $returned:ty;)*) => {
        /// Returns the functions, or the name of a missing one.
        ///
        /// # Safety
        /// Functions of these names in the file must have these types.
        unsafe fn functions(file: &File) -> Result<Functions, &'static str> {
            use super::*;

            let find = |name: &'static str, terminated: &'static [u8]| {
                let terminated = CStr::from_bytes_with_nul(terminated).expect("it ends with a zero");
                // SAFETY: reading the symbol as a raw pointer assumes nothing about its type.
                let found = unsafe { file.get::<*mut c_void>(terminated) };
                found.ok().map(|symbol| *symbol).filter(|symbol| !symbol.is_null()).ok_or(name)
            };
            Ok(Functions {
                $($name: {
                    let name = stringify!($name);
                    let symbol = find(name, concat!(stringify!($name), "\0").as_bytes())?;
                    // SAFETY: the pointer is not null, and a function of this name has this type.
                    unsafe {
                        mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> $returned>(symbol)
                    }
                },)*
            })
        }
    };
}

super::for_each_function!(find);

/// Returns the dynamic linker's own message, which names the file, in one line.
fn innermost(error: &dyn StdError) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
