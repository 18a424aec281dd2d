//! Ingot from Rust, by its C API alone: rustc matmul.rs -L LIB -l ingot, then run it with LIB in LD_LIBRARY_PATH.
use std::ffi::{c_char, c_void, CStr};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Tensor {
    _opaque: [u8; 0],
}

/// The first fields of IngotError: those that are read here.
#[repr(C)]
struct Error {
    status: i32,
    kind: *const c_char,
    message: *const c_char,
}

#[link(name = "ingot")]
extern "C" {
    fn ingot_version() -> *const c_char;
    fn ingot_last_error() -> *const Error;
    fn ingot_tensor_from(
        data: *const c_void, bytes: usize, shape: *const i64, rank: i32, dtype: i32, device: *const c_char,
        out: *mut *mut Tensor,
    ) -> i32;
    fn ingot_tensor_transpose(tensor: *const Tensor, a: i32, b: i32, out: *mut *mut Tensor) -> i32;
    fn ingot_matmul(a: *const Tensor, b: *const Tensor, stream: *mut c_void, out: *mut *mut Tensor) -> i32;
    fn ingot_tensor_read(tensor: *const Tensor, to: *mut c_void, bytes: usize) -> i32;
    fn ingot_tensor_close(tensor: *mut Tensor) -> i32;
}

const F32: i32 = 0;

fn check(status: i32) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let error = unsafe { &*ingot_last_error() };
    let text = |s| unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned();
    Err(format!("{} ({}): {}", text(error.kind), error.status, text(error.message)))
}

/// A tensor that closes itself.
struct Owned(*mut Tensor);

impl Drop for Owned {
    fn drop(&mut self) {
        unsafe { ingot_tensor_close(self.0) };
    }
}

impl Owned {
    fn from(values: &[f32], shape: &[i64]) -> Result<Owned, String> {
        let mut out = null_mut();
        check(unsafe {
            ingot_tensor_from(values.as_ptr().cast(), size_of_val(values), shape.as_ptr(), shape.len() as i32, F32,
                              null(), &mut out)
        })?;
        Ok(Owned(out))
    }
    fn transpose(&self) -> Result<Owned, String> {
        let mut out = null_mut();
        check(unsafe { ingot_tensor_transpose(self.0, 0, 1, &mut out) })?;
        Ok(Owned(out))
    }
    fn matmul(&self, other: &Owned) -> Result<Owned, String> {
        let mut out = null_mut();
        check(unsafe { ingot_matmul(self.0, other.0, null_mut(), &mut out) })?;
        Ok(Owned(out))
    }
    fn read(&self, count: usize) -> Result<Vec<f32>, String> {
        let mut values = vec![0.0f32; count];
        check(unsafe { ingot_tensor_read(self.0, values.as_mut_ptr().cast(), 4 * count) })?;
        Ok(values)
    }
}

fn main() -> Result<(), String> {
    let version = unsafe { CStr::from_ptr(ingot_version()) };
    let a = Owned::from(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let product = a.matmul(&a.transpose()?)?;
    println!("ingot {}: {:?}", version.to_string_lossy(), product.read(4)?);
    match a.matmul(&a) {
        Err(problem) => println!("and an error is a value: {problem}"),
        Ok(_) => return Err("[2, 3] times [2, 3] gave a tensor".into()),
    }
    Ok(())
}
