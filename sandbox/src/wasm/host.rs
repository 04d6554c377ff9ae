//! The host of a component: the linker, and the state behind the host functions.
//!
//! Invariant: the linker has standard streams, clocks, random numbers, the granted files, and sockets that
//! refuse. It has nothing else and no environment. Memory, tables and handles are counted.

use wasmtime::component::{Linker, ResourceTable};
use wasmtime::{Engine, ResourceLimiter, Result};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::p2::bindings::{cli, filesystem, random, sockets};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::Bound;
use super::files::{Files, HasFiles, View};
use super::limits::Limits;
use super::output::Capture;

/// Values that the host keeps for one call, such as open files and timers.
const RESOURCES: usize = 4096;
/// Bytes of one table entry.
const TABLE_ENTRY: usize = 16;
/// Random bytes at once.
const RANDOM_BYTES: u64 = 1 << 20;

/// The state of the host functions in one call.
pub(super) struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(super) files: Files,
    pub(super) meter: Meter,
}

impl State {
    pub(super) fn new(
        files: Files,
        limits: &Limits,
        args: &[String],
        stdin: Vec<u8>,
        output: &Capture,
    ) -> Self {
        let mut builder = WasiCtx::builder();
        builder
            .args(args)
            .stdin(MemoryInputPipe::new(stdin))
            .stdout(output.clone())
            .stderr(output.clone())
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(RANDOM_BYTES);
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES);
        Self { wasi: builder.build(), table, files, meter: Meter::new(limits.memory_bytes()) }
    }

    fn files(&mut self) -> View<'_> {
        View { files: &mut self.files, table: &mut self.table }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// The linker of every component.
pub(super) fn linker(engine: &Engine) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    // Streams, polling, clocks, secure random numbers, standard streams.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    random::insecure::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    random::insecure_seed::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    filesystem::types::add_to_linker::<State, HasFiles>(l, State::files)?;
    filesystem::preopens::add_to_linker::<State, HasFiles>(l, State::files)?;
    // C libraries import them whether a program has a use for them or not; each one refuses.
    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<State, WasiSockets>(l, &options, State::sockets)?;
    sockets::instance_network::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::tcp::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::udp::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::udp_create_socket::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    Ok(linker)
}

/// Counts memory and tables, all of a call's together.
#[derive(Debug)]
pub(super) struct Meter {
    left: usize,
    pub(super) reached: Option<Bound>,
}

impl Meter {
    fn new(bytes: usize) -> Self {
        Self { left: bytes, reached: None }
    }

    fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        match left {
            Some(left) => self.left = left,
            None => self.reached = Some(Bound::Memory),
        }
        left.is_some()
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(self.take(desired.saturating_sub(current)))
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(self.take(desired.saturating_sub(current).saturating_mul(TABLE_ENTRY)))
    }

    fn instances(&self) -> usize {
        64
    }

    fn tables(&self) -> usize {
        64
    }

    fn memories(&self) -> usize {
        16
    }
}
