//! Allows `[build-dependencies]` in the manifest, which select features for procedural macros.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
