//! Sequences of CUDA driver calls to the simulator, encoded in an input's bytes: any handle, size and
//! device address, in any order. Pointers to host memory are always valid, as the interface requires.

use std::{
    collections::BTreeSet,
    ffi::{c_int, c_void},
    ptr,
    sync::OnceLock,
};

use warpfold_driver::{Api, sys::*};
use warpfold_sim_driver::{driver, set_step_limit};

/// Kernels that write, copy, count, trap, loop forever, wait, need clusters, and use shared memory.
const KERNELS: &[u8] = b".version 7.8
.target sm_80
.address_size 64
.visible .global .align 4 .u32 variable = 7;
.visible .entry set(.param .u64 to, .param .u32 value) {
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to]; ld.param.u32 %r0, [value]; st.u32 [%rd0], %r0; ret;
}
.visible .entry copy(.param .u64 to, .param .u64 from) {
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to]; ld.param.u64 %rd1, [from]; ld.u32 %r0, [%rd1]; st.u32 [%rd0], %r0; ret;
}
.visible .entry bump() { red.global.add.u32 [variable], 1; ret; }
.visible .entry trap() { trap; }
.visible .entry forever() { L: bra L; }
.visible .entry wait(.param .u64 word) {
    .reg .pred %p; .reg .b32 %r<1>; .reg .b64 %rd<1>; ld.param.u64 %rd0, [word];
    L: ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p, %r0, 0; @%p bra L; ret;
}
.visible .entry paired() .reqnctapercluster 2, 1, 1 { ret; }
.visible .entry shared() .maxntid 64, 1, 1 { .shared .align 4 .b8 s[1024]; ret; }
\0";

const NAMES: [&std::ffi::CStr; 8] =
    [c"set", c"copy", c"bump", c"trap", c"forever", c"wait", c"paired", c"shared"];

const HOST: usize = 4096;

/// Step limit of a launch, so that endless kernels end soon.
const STEPS: u64 = 2000;

const CALLS: usize = 300;

const NOWHERE: u64 = 1 << 50;

/// Makes the calls that the bytes encode; returns the result codes.
pub(super) fn run(bytes: &[u8]) -> String {
    let mut calls = Calls::new(bytes);
    calls.context();
    for _ in 0..CALLS {
        let Some(&which) = calls.bytes.first() else { break };
        calls.bytes = &calls.bytes[1..];
        calls.one(which);
    }
    calls.end();
    let name = |code| Code::of(code).map_or("success", |code| code.name());
    let codes: Vec<String> = calls
        .codes
        .iter()
        .map(|&(call, code)| format!("call {} {}", letter(call), name(code)))
        .collect();
    codes.join("; ")
}

/// Returns a letter for a call, because the comparison of outcomes ignores numbers.
fn letter(call: u8) -> char {
    char::from(b'A' + call)
}

/// Handles and addresses that calls have returned so far, including invalidated ones.
struct Calls<'b> {
    api: &'static Api,
    bytes: &'b [u8],
    host: *mut c_void,
    contexts: Vec<CUcontext>,
    modules: Vec<CUmodule>,
    functions: Vec<CUfunction>,
    streams: Vec<CUstream>,
    events: Vec<CUevent>,
    graphs: Vec<CUgraph>,
    execs: Vec<CUgraphExec>,
    memory: Vec<CUdeviceptr>,
    locked: Vec<*mut c_void>,
    codes: BTreeSet<(u8, c_int)>,
}

macro_rules! call {
    ($self:ident, $name:ident($($argument:expr),* $(,)?)) => {{
        let api = $self.api;
        // SAFETY: handles and device addresses are numbers, which the simulator looks up. Pointers to
        // the host refer to memory that is large enough and lives to the end of the process: outputs are
        // copied before the next call, and are not used by pending work.
        unsafe { (api.$name)($($argument),*) }
    }};
}

/// Calls a function like `call!` and adds its result to a list on success.
macro_rules! made {
    ($self:ident, $list:ident, $name:ident($($argument:expr),* $(,)?)) => {{
        let mut made = Default::default();
        made!(@ $self, made, $list, $name($($argument),*))
    }};
    (pointer $self:ident, $list:ident, $name:ident($($argument:expr),* $(,)?)) => {{
        let mut made = ptr::null_mut();
        made!(@ $self, made, $list, $name($($argument),*))
    }};
    (@ $self:ident, $made:ident, $list:ident, $name:ident($($argument:expr),*)) => {{
        let code = call!($self, $name(&mut $made, $($argument),*));
        if code == CUDA_SUCCESS {
            $self.$list.push($made);
        }
        code
    }};
}

impl<'b> Calls<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        static HOST_MEMORY: OnceLock<usize> = OnceLock::new();
        // Never freed: pending work may outlive this input.
        let host = *HOST_MEMORY.get_or_init(|| {
            let words: &'static mut [u64] = Box::leak(vec![0_u64; HOST / 8].into_boxed_slice());
            set_step_limit(STEPS);
            words.as_mut_ptr().expose_provenance()
        });
        let host = ptr::with_exposed_provenance_mut(host);
        let mut calls = Self {
            api: driver().api(),
            bytes,
            host,
            contexts: Vec::new(),
            modules: Vec::new(),
            functions: Vec::new(),
            streams: Vec::new(),
            events: Vec::new(),
            graphs: Vec::new(),
            execs: Vec::new(),
            memory: Vec::new(),
            locked: Vec::new(),
            codes: BTreeSet::new(),
        };
        assert_eq!(call!(calls, cuInit(0)), CUDA_SUCCESS);
        calls.codes.clear();
        calls
    }

    fn byte(&mut self) -> usize {
        let Some((&byte, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        byte.into()
    }

    fn handle<T>(&mut self, list: fn(&Self) -> &Vec<*mut T>) -> *mut T {
        let byte = self.byte();
        match (byte, list(self).len()) {
            (0, _) | (_, 0) => ptr::null_mut(),
            (251.., _) => ptr::without_provenance_mut(byte * 0x0101_0101),
            (_, length) => list(self)[byte % length],
        }
    }

    fn stream(&mut self) -> CUstream {
        self.handle(|calls| &calls.streams)
    }

    fn address(&mut self) -> CUdeviceptr {
        let (byte, offset) = (self.byte(), self.byte() as u64);
        let offset = if offset < 128 { offset } else { offset << 12 };
        match self.memory.len() {
            0 => NOWHERE + offset,
            _ if byte > 250 => NOWHERE + offset,
            length => self.memory[byte % length].wrapping_add(offset),
        }
    }

    fn size(&mut self) -> usize {
        const SIZES: [usize; 12] = [0, 1, 2, 4, 8, 100, 256, HOST, 65_536, 1 << 20, 1 << 45, usize::MAX];
        SIZES[self.byte() % SIZES.len()]
    }

    fn number(&mut self) -> u32 {
        const NUMBERS: [u32; 10] = [0, 1, 2, 3, 32, 64, 1024, 65_536, 0x8000_0000, u32::MAX];
        NUMBERS[self.byte() % NUMBERS.len()]
    }

    fn context(&mut self) -> c_int {
        let code = made!(pointer self, contexts, cuCtxCreate_v2(0, 0));
        self.module();
        code
    }

    fn module(&mut self) -> c_int {
        let code = made!(pointer self, modules, cuModuleLoadData(KERNELS.as_ptr().cast()));
        if let (CUDA_SUCCESS, Some(&module)) = (code, self.modules.last()) {
            for name in NAMES {
                made!(pointer self, functions, cuModuleGetFunction(module, name.as_ptr()));
            }
            let (mut address, mut bytes) = (0, 0);
            let found = call!(
                self,
                cuModuleGetGlobal_v2(&mut address, &mut bytes, module, c"variable".as_ptr())
            );
            assert_eq!((found, bytes), (CUDA_SUCCESS, 4));
            self.memory.push(address);
        }
        code
    }

    fn one(&mut self, which: u8) {
        let which = which % 40;
        let code = match which {
            0..=9 => self.of_memory(which),
            10..=19 => self.of_streams(which),
            20..=29 => self.of_graphs_and_contexts(which),
            _ => self.launch(which),
        };
        self.codes.insert((which, code));
    }

    fn of_memory(&mut self, which: u8) -> c_int {
        let stream = self.stream();
        match which {
            0 => {
                let bytes = self.size();
                made!(self, memory, cuMemAlloc_v2(bytes))
            }
            1 => {
                let bytes = self.size();
                made!(self, memory, cuMemAllocAsync(bytes, stream))
            }
            2 => {
                let address = self.address();
                call!(self, cuMemFree_v2(address))
            }
            3 => {
                let address = self.address();
                call!(self, cuMemFreeAsync(address, stream))
            }
            4 => {
                let (to, bytes) = (self.address(), self.size().min(HOST));
                call!(self, cuMemcpyHtoDAsync_v2(to, self.host, bytes, stream))
            }
            5 => {
                let (from, bytes) = (self.address(), self.size().min(HOST));
                call!(self, cuMemcpyDtoHAsync_v2(self.host, from, bytes, stream))
            }
            6 => {
                let (to, from, bytes) = (self.address(), self.address(), self.size());
                call!(self, cuMemcpyDtoDAsync_v2(to, from, bytes, stream))
            }
            7 => {
                let (to, value, count) = (self.address(), self.number(), self.size());
                call!(self, cuMemsetD32Async(to, value, count, stream))
            }
            8 => {
                let bytes = self.size();
                let code = made!(pointer self, locked, cuMemAllocHost_v2(bytes));
                if code == CUDA_SUCCESS {
                    let address = self.locked.last().map_or(0, |address| address.addr() as u64);
                    self.memory.push(address);
                }
                code
            }
            _ => {
                let address = self.handle(|calls| &calls.locked);
                call!(self, cuMemFreeHost(address))
            }
        }
    }

    fn of_streams(&mut self, which: u8) -> c_int {
        let (stream, event) = (self.stream(), self.handle(|calls| &calls.events));
        match which {
            10 => {
                let flags = self.number();
                made!(pointer self, streams, cuStreamCreate(flags))
            }
            11 => call!(self, cuStreamDestroy_v2(stream)),
            12 => call!(self, cuStreamSynchronize(stream)),
            13 => call!(self, cuStreamQuery(stream)),
            14 => call!(self, cuStreamWaitEvent(stream, event, 0)),
            15 => {
                let flags = self.number();
                made!(pointer self, events, cuEventCreate(flags))
            }
            16 => call!(self, cuEventRecord(event, stream)),
            17 => call!(self, cuEventSynchronize(event)),
            18 => call!(self, cuEventDestroy_v2(event)),
            _ => {
                let (end, mut time) = (self.handle(|calls| &calls.events), 0.0);
                call!(self, cuEventElapsedTime(&mut time, event, end))
            }
        }
    }

    fn of_graphs_and_contexts(&mut self, which: u8) -> c_int {
        let (stream, graph) = (self.stream(), self.handle(|calls| &calls.graphs));
        let exec = self.handle(|calls| &calls.execs);
        match which {
            20 => {
                let mode = (self.byte() % 4) as CUstreamCaptureMode;
                call!(self, cuStreamBeginCapture_v2(stream, mode))
            }
            21 => {
                let mut made = ptr::null_mut();
                let code = call!(self, cuStreamEndCapture(stream, &mut made));
                if code == CUDA_SUCCESS {
                    self.graphs.push(made);
                }
                code
            }
            22 => made!(pointer self, execs, cuGraphInstantiateWithFlags(graph, 0)),
            23 => call!(self, cuGraphLaunch(exec, stream)),
            24 => call!(self, cuGraphExecDestroy(exec)),
            25 => call!(self, cuGraphDestroy(graph)),
            26 => call!(self, cuCtxSynchronize()),
            27 if self.contexts.len() < 4 => self.context(),
            27 => {
                let context = self.handle(|calls| &calls.contexts);
                call!(self, cuCtxSetCurrent(context))
            }
            28 => {
                let context = self.handle(|calls| &calls.contexts);
                call!(self, cuCtxDestroy_v2(context))
            }
            _ => match self.byte() {
                0..=127 if self.modules.len() < 4 => self.module(),
                _ => {
                    let module = self.handle(|calls| &calls.modules);
                    call!(self, cuModuleUnload(module))
                }
            },
        }
    }

    fn launch(&mut self, which: u8) -> c_int {
        let (function, stream) = (self.handle(|calls| &calls.functions), self.stream());
        let [mut first, mut second] = [self.address(), self.address()];
        let mut parameters: [*mut c_void; 8] = [ptr::null_mut(); 8];
        for (place, parameter) in parameters.iter_mut().enumerate() {
            *parameter = if place == 0 { (&raw mut first).cast() } else { (&raw mut second).cast() };
        }
        let ([x, y, z], [bx, by, bz], shared) = match which {
            30..=36 => ([1; 3], [1; 3], 0),
            _ => ([(); 3].map(|()| self.number()), [(); 3].map(|()| self.number()), self.number()),
        };
        let parameters = parameters.as_mut_ptr();
        call!(
            self,
            cuLaunchKernel(function, x, y, z, bx, by, bz, shared, stream, parameters, ptr::null_mut())
        )
    }

    fn end(&mut self) {
        for exec in std::mem::take(&mut self.execs) {
            call!(self, cuGraphExecDestroy(exec));
        }
        for graph in std::mem::take(&mut self.graphs) {
            call!(self, cuGraphDestroy(graph));
        }
        for context in std::mem::take(&mut self.contexts) {
            call!(self, cuCtxDestroy_v2(context));
        }
    }
}
