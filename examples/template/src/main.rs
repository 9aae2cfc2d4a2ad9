use warpfold::{Device, Reducer, Selection, custom};

struct SumOfCubes;

impl custom::Reduction for SumOfCubes {
    const NAME: &'static str = "sum_of_cubes";
    type Element = f32;
    type Output = f64;
}

fn main() -> Result<(), warpfold::Error> {
    let device = Device::open(Selection::Auto)?;
    // SAFETY: the PTX is that of the crate in `kernels`.
    let kernels = unsafe { custom::Module::load(&device, include_str!(env!("KERNELS_PTX")))? };
    let sum_of_cubes = kernels.operation::<SumOfCubes>()?;

    let numbers = device.upload(&[1.0_f32, 2.0, 3.0])?;
    let sum = Reducer::new(&device)?.reduce(&sum_of_cubes, &numbers)?;
    println!("{sum} on {}", device.info().name);
    Ok(())
}
