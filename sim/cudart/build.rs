//! Sets the library's soname and the symbol version that programs ask for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in ["-fuse-ld=bfd", "-Wl,-soname,libcudart.so.13", "-Wl,--default-symver"] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
