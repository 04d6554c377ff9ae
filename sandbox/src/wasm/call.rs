//! Makes one call: a fresh store and instance in a separate thread, under every bound.
//!
//! Fuel and the clock end a component that computes. The thread of the caller ticks an epoch, at which the
//! component gives way to the timer. A waiting component is in a host call, which the same timer ends.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use wasmtime::component::Instance;
use wasmtime::{Engine, Store, Trap};
use wasmtime_wasi::I32Exit;

use super::host::State;
use super::limits::Limits;
use super::load::{Component, first_line};
use super::{Bound, End};
use crate::error::{Error, Kind};

/// The interval at which a computing component looks at the clock.
const TICK: Duration = Duration::from_millis(10);
/// Time beyond the bound after which a host call is given up.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of stack of the thread. The component has its own stack.
const THREAD_STACK: usize = 1024 * 1024;
/// Bytes that a host call takes from a component at most.
const HOST_CALL: usize = 16 * 1024 * 1024;
/// Handles of component values.
const HANDLES: usize = 4096;

/// The end of a call.
pub(super) struct Ended<T> {
    pub(super) value: Result<T, End>,
    pub(super) refused: Option<String>,
    pub(super) reached: Vec<Bound>,
}

/// Instantiates `component` and does `work` with it.
pub(super) fn call<T, W>(
    engine: &Engine,
    component: &Component,
    state: State,
    limits: &Limits,
    work: W,
) -> Result<Ended<T>, Error>
where
    T: Send + 'static,
    W: AsyncFnOnce(&mut Store<State>, Instance) -> wasmtime::Result<T> + Send + 'static,
{
    let (done, result) = mpsc::channel();
    let (engine_too, component, limits_too) = (engine.clone(), component.clone(), limits.clone());
    std::thread::Builder::new()
        .name("component".into())
        .stack_size(THREAD_STACK)
        .spawn(move || {
            // Nobody listens any more if it was given up.
            let _ = done.send(run(&engine_too, &component, state, &limits_too, work));
        })
        .map_err(|source| Error::new(Kind::Failed, "cannot start a thread for the call").because(source))?;
    let last = Instant::now() + limits.wall() + GRACE;
    loop {
        match result.recv_timeout(TICK) {
            Ok(ended) => return ended,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Error::new(Kind::Failed, "the runtime failed during the call"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() > last => {
                return Err(Error::new(Kind::Limit, "the call did not end in time and was given up"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => engine.increment_epoch(),
        }
    }
}

fn run<T, W>(
    engine: &Engine,
    component: &Component,
    state: State,
    limits: &Limits,
    work: W,
) -> Result<Ended<T>, Error>
where
    W: AsyncFnOnce(&mut Store<State>, Instance) -> wasmtime::Result<T>,
{
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.meter);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(HOST_CALL);
    store.set_max_component_handles(HANDLES);
    store.set_fuel(limits.fuel).map_err(|why| Error::new(Kind::Failed, first_line(&why)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime =
        runtime.map_err(|source| Error::new(Kind::Failed, "cannot start the call").because(source))?;
    // The timer belongs to the runtime, so it is made within it.
    let outcome = runtime.block_on(async {
        let work = async {
            let instance = component.pre().instantiate_async(&mut store).await?;
            work(&mut store, instance).await
        };
        tokio::time::timeout(limits.wall(), work).await
    });
    let state = store.data();
    let mut reached: Vec<Bound> = state.meter.reached.into_iter().collect();
    if state.files.disk_limit() {
        reached.push(Bound::Disk);
    }
    let value = match outcome {
        Err(_) => Err(End::Stopped(Bound::Time)),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(why)) => Err(end(&why, state.meter.reached)),
    };
    Ok(Ended { value, refused: state.files.refused.clone(), reached })
}

/// The reason that a component ended early.
fn end(why: &wasmtime::Error, reached: Option<Bound>) -> End {
    if let Some(I32Exit(code)) = why.downcast_ref::<I32Exit>() {
        return End::Exited(*code);
    }
    match (why.downcast_ref::<Trap>(), reached) {
        (Some(Trap::OutOfFuel), _) => End::Stopped(Bound::Fuel),
        (Some(Trap::StackOverflow), _) => End::Stopped(Bound::Stack),
        (Some(Trap::Interrupt), _) => End::Stopped(Bound::Time),
        (None, Some(bound)) => End::Stopped(bound),
        (_, _) => End::Trapped(first_line(why)),
    }
}
