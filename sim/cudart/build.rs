//! Sets the soname and the symbol version that programs record when they link against CUDA's runtime.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in ["-fuse-ld=bfd", "-Wl,-soname,libcudart.so.13", "-Wl,--default-symver"] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
