//! Starts a command: makes the task of the stage, the arguments of bubblewrap, and the descriptors.
//!
//! Invariant: this file makes all arguments, environment variables and descriptors. None is inherited.

use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use super::machine::Outer;
use super::program::by_number;
use super::service::TalkPipes;
use super::supervise::Started;
use super::{Inner, Process, broker, cgroup, could_not_start, host, mounts, owner, reduced, stage, sys};
use crate::command::environment::Environment;
use crate::command::layer::wanted;
use crate::command::scratch::Scratch;
use crate::command::{Layer, Setup};
use crate::error::{Error, Kind};
use crate::fs::marks::{Marked, Marks};
use crate::grants::Scope;
use crate::net::{self, PORT};
use crate::policy::Policy;

/// The user and group a command sees itself as.
const USER: &str = "1000";

/// The reading ends of what a command is seen by, and the writing ends that it is given.
struct Pipes {
    output: (PipeReader, PipeWriter),
    status: (PipeReader, PipeWriter),
    info: (PipeReader, PipeWriter),
    /// The command's own ends, where it is talked to.
    talk: Option<TalkPipes>,
    /// What the broker notes, where there is one.
    record: Option<OwnedFd>,
    /// The command's own end of the line that the proxy's listener comes through.
    door: Option<OwnedFd>,
}

impl Pipes {
    fn new(talk: Option<TalkPipes>, broker: bool) -> std::io::Result<Self> {
        let record = broker.then(host::record).transpose()?;
        let (output, status, info) = (std::io::pipe()?, std::io::pipe()?, std::io::pipe()?);
        Ok(Self { output, status, info, talk, record, door: None })
    }
}

impl Inner {
    /// Starts a command; `scratch` is where the reduced tier's temporary files go. With the line that the proxy's listener
    /// comes through, where there is to be one.
    pub(super) fn spawn(
        &self,
        command: &str,
        marks: &Marks,
        group: Option<&cgroup::Group>,
        scratch: Option<&Scratch>,
        talk: Option<TalkPipes>,
        door: Option<OwnedFd>,
    ) -> Result<Started, Error> {
        let broker = self.grants.can_write() && self.wants(Layer::Broker);
        let mut pipes = Pipes::new(talk, broker).map_err(could_not_start)?;
        pipes.door = door;
        if self.machine.has_owner() {
            // So that a command can open its own output again, as by /dev/stderr. Where there is no such user, the owner's
            // stage says so.
            let user = rustix::fs::Uid::from_raw(owner::USER);
            let _ = rustix::fs::fchown(&pipes.output.1, Some(user), None);
        }
        match (&self.machine.outer, scratch) {
            (Outer::Nothing { .. }, Some(scratch)) => {
                self.spawn_reduced(command, marks, group, scratch, pipes)
            }
            _ => self.spawn_in_namespaces(command, marks, group, pipes),
        }
    }

    fn spawn_in_namespaces(
        &self,
        command: &str,
        marks: &Marks,
        group: Option<&cgroup::Group>,
        pipes: Pipes,
    ) -> Result<Started, Error> {
        let workspace = self.root.present_path().ok_or_else(unfit)?;
        let shown = workspace.to_str().ok_or_else(unfit)?.to_owned();
        let owner = self.machine.has_owner();
        let source = if owner { Path::new(owner::WORKSPACE) } else { workspace.as_path() };
        let around = self.wants(Layer::Mounts);
        let mut plan =
            mounts::plan(&workspace, source, &self.root, &self.grants, marks, &self.limits, around)?;
        for (number, outside) in self.outside.iter().enumerate() {
            let prepared = PathBuf::from(owner::outside_place(number));
            plan.outside(outside, if owner { &prepared } else { &outside.real }, around);
        }
        plan.rules.connect = self.network.as_ref().map(|_| PORT);
        let people =
            host::memory_file("passwd", &format!("sandbox:x:{USER}:{USER}::{}:/bin/sh\n", mounts::HOME));
        let groups = host::memory_file("group", &format!("sandbox:x:{USER}:\n"));
        let (people, groups) = (people.map_err(could_not_start)?, groups.map_err(could_not_start)?);
        // They live on to the inner stage, which is started from one of them.
        let stage = self.machine.stage.as_fd().try_clone_to_owned().map_err(could_not_start)?;
        let directory = self.root.handle().map_err(could_not_start)?;
        let task = stage::Task {
            rules: plan.rules.clone(),
            expected: plan.expected.clone(),
            outside: self.outside(),
            owner: owner.then(|| owner::Task {
                workspace: directory.as_raw_fd(),
                outside: self
                    .outside
                    .iter()
                    .map(|outside| (outside.handle.as_raw_fd(), outside.directory))
                    .collect(),
                stage: stage.as_raw_fd(),
            }),
            ..self.task(command, shown, mounts::PROBE.to_owned(), marks, group, &pipes)?
        };
        let Outer::Bubblewrap { program, .. } = &self.machine.outer else { return Err(unfit()) };
        let bubblewrap = program.as_fd().try_clone_to_owned().map_err(could_not_start)?;
        let mut process = match owner {
            false => program.process(),
            true => {
                let mut process = self.machine.stage.process();
                process.args([stage::ARGUMENT, stage::OUTER]).arg(by_number(bubblewrap.as_raw_fd()));
                process
            }
        };
        let mut arguments: Vec<OsString> = self.namespaces().map(OsString::from).collect();
        arguments.extend(["--info-fd".into(), pipes.info.1.as_raw_fd().to_string().into()]);
        arguments.extend(plan.arguments());
        for (file, at) in [(&people, "/etc/passwd"), (&groups, "/etc/group")] {
            let data = ["--perms".into(), "0444".into(), "--ro-bind-data".into()];
            arguments.extend(data);
            arguments.extend([file.as_raw_fd().to_string().into(), at.into()]);
        }
        arguments.extend(["--remount-ro", "/dev", "--remount-ro", "/", "--"].map(OsString::from));
        arguments.push(by_number(stage.as_raw_fd()).into());
        arguments.extend([stage::ARGUMENT, stage::INNER].map(OsString::from));
        process.args(arguments);
        let mut kept = vec![&people, &groups, &stage];
        if owner {
            kept.extend([&directory, &bubblewrap]);
            kept.extend(self.outside.iter().map(|outside| &outside.handle));
        }
        self.launch(process, &task, group, pipes, &kept)
    }

    fn spawn_reduced(
        &self,
        command: &str,
        marks: &Marks,
        group: Option<&cgroup::Group>,
        scratch: &Scratch,
        pipes: Pipes,
    ) -> Result<Started, Error> {
        let workspace = self.root.present_path().ok_or_else(unfit)?;
        let shown = workspace.to_str().ok_or_else(unfit)?.to_owned();
        let (life, held) = std::io::pipe().map_err(could_not_start)?;
        let life = OwnedFd::from(life);
        let mut rules = reduced::rules(&self.root, &self.grants, marks, scratch)?;
        rules.read.extend(self.outside.iter().filter_map(|outside| outside.real.to_str().map(str::to_owned)));
        let mut task = stage::Task {
            rules,
            reduced: Some(stage::Reduced {
                info: pipes.info.1.as_raw_fd(),
                life: life.as_raw_fd(),
                others: host::tasks_of_this_user(),
            }),
            ..self.task(command, shown, scratch.probe().to_owned(), marks, group, &pipes)?
        };
        for (name, value) in &mut task.environment {
            match name.as_str() {
                "HOME" => scratch.home().clone_into(value),
                "TMPDIR" => scratch.temporary().clone_into(value),
                _ => {}
            }
        }
        let mut process = self.machine.stage.process();
        process.args([stage::ARGUMENT, stage::REDUCED]);
        let started = self.launch(process, &task, group, pipes, &[&life])?;
        Ok(Started { life: Some(held), ..started })
    }

    /// What every stage is told.
    fn task(
        &self,
        command: &str,
        directory: String,
        probe: String,
        marks: &Marks,
        group: Option<&cgroup::Group>,
        pipes: &Pipes,
    ) -> Result<stage::Task, Error> {
        let whole = self.grants.read == Scope::Everything;
        Ok(stage::Task {
            shell: self.exec.shell.clone().unwrap_or_else(|| "/bin/sh".to_owned()),
            command: command.to_owned(),
            directory,
            probe,
            identity: if whole { Some(self.root.identity()?) } else { None },
            environment: self.environment.variables().to_vec(),
            limits: self.limits.clone(),
            rules: Default::default(),
            expected: Vec::new(),
            landlock: self.machine.landlock,
            outside: Vec::new(),
            left_out: self.left_out.clone(),
            status: pipes.status.1.as_raw_fd(),
            input: pipes.talk.as_ref().map(|talk| talk.input.as_raw_fd()),
            broker: pipes.record.as_ref().map(|record| broker::Task {
                record: record.as_raw_fd(),
                patterns: self.grants.protect.sources().map(str::to_owned).collect(),
                led_to: marks.led_to.iter().map(|path| path.as_str().to_owned()).collect(),
                links: marks.protected.iter().any(|mark| matches!(mark.what, Marked::Link(_))),
            }),
            door: pipes.door.as_ref().map(|door| door.as_raw_fd()),
            group: group.is_some(),
            owner: None,
            reduced: None,
        })
    }

    /// Starts `process`, which is told `task` and keeps the pipes' writing ends and the files of `kept` open.
    fn launch(
        &self,
        mut process: Process,
        task: &stage::Task,
        group: Option<&cgroup::Group>,
        pipes: Pipes,
        kept: &[&OwnedFd],
    ) -> Result<Started, Error> {
        let task = serde_json::to_string(task).map_err(|why| could_not_start(why.into()))?;
        let task = host::memory_file("task", &task).map_err(could_not_start)?;
        let Pipes { output, status, info, talk, record, door } = pipes;
        let (input, answers) = talk.map(|talk| (talk.input, talk.output)).unzip();
        let kept: Vec<RawFd> = [status.1.as_raw_fd(), info.1.as_raw_fd()]
            .into_iter()
            .chain(input.as_ref().map(|input| input.as_raw_fd()))
            .chain(record.as_ref().map(|record| record.as_raw_fd()))
            .chain(door.as_ref().map(|door| door.as_raw_fd()))
            .chain(kept.iter().map(|fd| fd.as_raw_fd()))
            .collect();
        let doors = group.map(cgroup::Group::doors).unwrap_or_default();
        let closes = self.wants(Layer::Descriptors);
        process.env_clear().current_dir("/").stdin(task);
        match answers {
            Some(answers) => process.stdout(answers),
            None => process.stdout(output.1.try_clone().map_err(could_not_start)?),
        };
        process.stderr(output.1);
        sys::before_exec(&mut process, move || {
            sys::setsid()?;
            for door in &doors {
                sys::write_raw(*door, b"0")?;
            }
            if closes {
                sys::close_on_exec_from(3)?;
            }
            kept.iter().try_for_each(|fd| sys::keep_over_exec(*fd))
        });
        let child = process.spawn().map_err(could_not_start)?;
        // The writing ends go here, those in the process's description too, so that the pipes end with their processes.
        drop((process, status.1, info.1, input, door));
        Ok(Started { child, output: output.0, status: status.0, info: info.0, life: None, record })
    }

    fn namespaces(&self) -> impl Iterator<Item = &'static str> {
        let made = [
            (Layer::Processes, ["--unshare-pid"].as_slice()),
            (Layer::Ipc, &["--unshare-ipc"]),
            (Layer::Names, &["--unshare-uts", "--hostname", "sandbox", "--unshare-cgroup-try"]),
            (Layer::Network, &["--unshare-net"]),
        ];
        let wanted = made.into_iter().filter(|(layer, _)| self.wants(*layer)).flat_map(|(_, flags)| flags);
        let user = ["--unshare-user", "--uid", USER, "--gid", USER];
        let less = ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"];
        user.into_iter().chain(wanted.copied()).chain(less)
    }

    /// The machine's own namespaces, none of which the stage may find itself in.
    fn outside(&self) -> Vec<(Layer, String)> {
        [
            (Layer::Userns, "user"),
            (Layer::Mounts, "mnt"),
            (Layer::Processes, "pid"),
            (Layer::Ipc, "ipc"),
            (Layer::Names, "uts"),
            (Layer::Network, "net"),
        ]
        .into_iter()
        .filter(|(layer, _)| self.wants(*layer))
        .filter_map(|(layer, name)| Some((layer, host::namespace(name)?)))
        .collect()
    }
}

fn unfit() -> Error {
    Error::new(Kind::Denied, "commands cannot run in this workspace: its path is not Unicode, or gone")
}

/// The environment of commands under a policy, with the way to the proxy.
pub(super) fn environment(policy: &Policy, setup: &Setup) -> Environment {
    if !wanted(Layer::Environment, setup.left_out()) {
        return Environment::inherited();
    }
    let mut environment = Environment::of(policy, mounts::HOME, "/tmp");
    if matches!(super::network(policy), Ok(Some(_))) {
        net::variables().for_each(|(name, value)| environment.set(name, value));
    }
    environment
}
