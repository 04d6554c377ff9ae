//! Beneath everything that can be stopped: the word to stop, and whoever waits for it. Knows no thread and no runtime.
//!
//! Invariant: nobody who waits misses the word. It is set, and waiters enter, under one lock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Stops work between two batches or tokens, and wakes who waits. Clones share it.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Cancel, Kind, Session, Vocabulary, scripted::Scripted};
///
/// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
/// let cancel = Cancel::default();
/// let handler = cancel.clone();
/// handler.cancel();
/// let error = session.set_prompt(&b"hi".map(u32::from), 0, &cancel, &mut |_| ()).unwrap_err();
/// assert_eq!(error.kind(), Kind::Cancelled);
/// // Others know of flags alone; the next turn begins anew.
/// assert!(cancel.is_cancelled() && cancel.flag().load(std::sync::atomic::Ordering::Relaxed));
/// cancel.reset();
/// assert!(!handler.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    flag: Arc<AtomicBool>,
    waiting: Mutex<Waiting>,
    asked: Condvar,
}

/// What is done once somebody asks, each under its number.
#[derive(Default)]
struct Waiting {
    next: u64,
    todo: Vec<(u64, Box<dyn FnOnce() + Send>)>,
}

impl Cancel {
    /// Asks the work to stop.
    pub fn cancel(&self) {
        let todo = {
            let mut waiting = self.waiting();
            self.0.flag.store(true, Ordering::Relaxed);
            std::mem::take(&mut waiting.todo)
        };
        self.0.asked.notify_all();
        todo.into_iter().for_each(|(_, wake)| wake());
    }

    /// Whether somebody asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, to be read by what knows only of flags: set, somebody asked. Setting it wakes nobody.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.flag.clone()
    }

    /// Takes the request back, for the next turn.
    pub fn reset(&self) {
        self.0.flag.store(false, Ordering::Relaxed);
    }

    /// Waits in this thread until somebody asks, or the time is over; whether somebody asked.
    ///
    /// ```
    /// use std::time::Duration;
    /// use toolgate_infer::Cancel;
    ///
    /// let cancel = Cancel::default();
    /// assert!(!cancel.wait_for(Duration::from_millis(1)));
    /// let waits = cancel.clone();
    /// let waiting = std::thread::spawn(move || waits.wait_for(Duration::from_secs(3_600)));
    /// cancel.cancel();
    /// assert!(waiting.join().unwrap());
    /// ```
    pub fn wait_for(&self, time: Duration) -> bool {
        let goes_on = |_: &mut Waiting| !self.is_cancelled();
        let waited = self.0.asked.wait_timeout_while(self.waiting(), time, goes_on);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.is_cancelled()
    }

    /// Is over once somebody asks, on any executor.
    ///
    /// ```
    /// use toolgate_infer::Cancel;
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     struct Unpark(std::thread::Thread);
    /// #     impl std::task::Wake for Unpark {
    /// #         fn wake(self: std::sync::Arc<Self>) { self.0.unpark(); }
    /// #     }
    /// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
    /// #             std::task::Poll::Ready(value) => return value,
    /// #             std::task::Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    ///
    /// let cancel = Cancel::default();
    /// let asks = cancel.clone();
    /// std::thread::spawn(move || asks.cancel());
    /// block_on(cancel.cancelled());
    /// assert!(cancel.is_cancelled());
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { cancel: self.clone(), wakes: None }
    }

    /// Has `wake` called once, from the thread that asks, or at once where somebody has asked; never after what this gives
    /// back is dropped.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use toolgate_infer::Cancel;
    ///
    /// let (send, news) = channel();
    /// let cancel = Cancel::default();
    /// let stops = send.clone();
    /// let _wakes = cancel.on_cancel(move || drop(stops.send("stop")));
    /// cancel.cancel();
    /// assert_eq!(news.recv(), Ok("stop"));
    /// ```
    pub fn on_cancel(&self, wake: impl FnOnce() + Send + 'static) -> OnCancel {
        let mut waiting = self.waiting();
        // A number of its own in any case: by it the other end finds what to take back.
        let number = waiting.next;
        waiting.next += 1;
        if self.is_cancelled() {
            drop(waiting);
            wake();
        } else {
            waiting.todo.push((number, Box::new(wake)));
        }
        OnCancel { cancel: self.clone(), number }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

/// What is called once somebody asks, until this is dropped.
#[must_use = "nothing is called after it is dropped"]
pub struct OnCancel {
    cancel: Cancel,
    number: u64,
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        let gone = {
            let mut waiting = self.cancel.waiting();
            let at = waiting.todo.iter().position(|(number, _)| *number == self.number);
            at.map(|at| waiting.todo.swap_remove(at))
        };
        // What it holds may ask for the lock as it goes.
        drop(gone);
    }
}

/// The future of [`Cancel::cancelled`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Cancelled {
    cancel: Cancel,
    wakes: Option<OnCancel>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.cancel.is_cancelled() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let wakes = self.cancel.on_cancel(move || waker.wake());
        self.wakes = Some(wakes);
        if self.cancel.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::task::{Wake, Waker};
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn who_came_too_late_takes_nobody_else_back() {
        let (cancel, (send, news)) = (Cancel::default(), channel());
        cancel.cancel();
        let late = cancel.on_cancel(|| ());
        cancel.reset();
        let _waits = cancel.on_cancel(move || send.send(()).unwrap());
        drop(late);
        cancel.cancel();
        assert_eq!(news.recv_timeout(LONG), Ok(()));
    }

    #[test]
    fn everybody_who_waits_in_a_thread_is_woken() {
        let cancel = Cancel::default();
        let (send, began) = channel();
        let started = Instant::now();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let (cancel, send) = (cancel.clone(), send.clone());
                std::thread::spawn(move || {
                    send.send(()).unwrap();
                    cancel.wait_for(LONG)
                })
            })
            .collect();
        began.iter().take(3).for_each(drop);
        cancel.cancel();
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
        assert!(started.elapsed() < LONG);
    }

    #[test]
    fn a_waker_is_called_once_and_none_that_was_dropped() {
        let count = Arc::new(AtomicUsize::new(0));
        let counts = || {
            let count = count.clone();
            move || {
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let cancel = Cancel::default();
        let kept = cancel.on_cancel(counts());
        drop(cancel.on_cancel(counts()));
        cancel.cancel();
        cancel.cancel();
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let late = cancel.on_cancel(counts());
        assert_eq!(count.load(Ordering::Relaxed), 2, "who comes late is told at once");
        drop((kept, late));
        cancel.reset();
        assert!(cancel.waiting().todo.is_empty());
    }

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_future_is_woken_however_often_it_was_polled() {
        let cancel = Cancel::default();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = cancel.cancelled();
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        cancel.cancel();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(Pin::new(&mut future).poll(&mut context).is_ready());
    }
}
