//! `toolgate doctor`: what works on this machine, what does not and why, and what is refused without it.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use toolgate_llama::{Device, DeviceKind, Instructions};
use toolgate_sandbox::command::{Commands, LayerState, Setup};
use toolgate_sandbox::output;
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{Resolver, Root};

use super::exit::Exit;
use super::{components, tool};
use crate::models::{Presence, Store};

const EXAMPLES: &str = "\
Examples:
  toolgate doctor
  toolgate doctor --json | jq '.devices[] | .name'
  toolgate doctor --json | jq '.sandbox.layers[] | select(.works | not)'

Exit code 0 if commands can run confined here, 3 if they are refused.";

/// Arguments of `toolgate doctor`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DoctorArgs {
    /// The workspace to try it in.
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    sandbox: Sandbox,
    processor: Processor,
    devices: Vec<FoundDevice>,
    models: Models,
    build: Build,
}

#[derive(Serialize)]
struct Sandbox {
    /// How file tools keep paths inside.
    files: Resolver,
    commands: bool,
    /// Why nothing is done in the workspace: a command left what is protected, and it could not be taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<String>,
    layers: Vec<LayerState>,
    proxy: Proxy,
    reduced: Reduced,
    components: Components,
}

/// The network that a policy can grant to commands and servers: hosts of a list, through a proxy.
#[derive(Serialize)]
struct Proxy {
    works: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// What commands could run under where a layer is missing, if the policy asks for it.
#[derive(Serialize)]
struct Reduced {
    works: bool,
    /// Its layers, or why there is none of it.
    found: String,
    /// What it leaves open.
    weaker: Vec<String>,
}

/// WebAssembly tools.
#[derive(Serialize)]
struct Components {
    works: bool,
    /// The engine, or why there is none.
    found: String,
}

#[derive(Serialize)]
struct Processor {
    architecture: &'static str,
    cores: usize,
    features: Vec<&'static str>,
    /// What the inference library was built to use and the processor lacks.
    missing: Vec<&'static str>,
}

/// What could evaluate a model.
#[derive(Debug, PartialEq, Serialize)]
struct FoundDevice {
    /// Its name for `--device`.
    name: String,
    /// What its driver calls it.
    description: String,
    /// The part of llama.cpp that drives it.
    backend: String,
    kind: &'static str,
    memory_free: u64,
    memory_total: u64,
    /// Whether `--device auto` takes it.
    used: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

#[derive(Serialize)]
struct Models {
    directory: Option<PathBuf>,
    present: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct Build {
    version: &'static str,
    profile: &'static str,
    system: &'static str,
    /// The features for graphics processors that are built in.
    devices: Vec<&'static str>,
}

/// Looks and prints.
pub(super) fn run(args: DoctorArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let root = tool::open(&args.workspace)?;
    let layers = Commands::layers(&root, &Setup::default());
    let commands = layers.iter().all(|state| state.works || !state.required);
    let report = Report {
        sandbox: Sandbox {
            files: root.resolver(),
            commands,
            closed: root.check_open().err().map(|why| why.to_string()),
            layers,
            proxy: proxy(&root),
            reduced: reduced(&root),
            components: components(&root),
        },
        processor: processor(),
        devices: devices()?,
        models: models(),
        build: Build {
            version: env!("CARGO_PKG_VERSION"),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            system: std::env::consts::OS,
            devices: built_in(),
        },
    };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        print(&report, out)?;
    }
    Ok(if commands { Exit::Done } else { Exit::Refused })
}

/// One trial run with a host that nobody asks for.
fn proxy(root: &Root) -> Proxy {
    let policy = "version = 1\ntier = \"exec-net\"\n[fs]\nread = [\"@workspace\", \"@system\"]\n\
                  [net]\nmode = \"proxy\"\nallow = [\"proxy.invalid:443\"]\n";
    let tried =
        Policy::parse(policy).and_then(|policy| Commands::new(root, &policy, Mode::Intel, &Setup::default()));
    let why = tried.err().map(|why| why.to_string());
    Proxy { works: why.is_none(), why }
}

fn print(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let sandbox = &report.sandbox;
    writeln!(out, "sandbox")?;
    let resolver = match sandbox.files {
        Resolver::Openat2 => "kept inside by the kernel (openat2) and by our own walk",
        _ => "kept inside by our own walk; the kernel does not help (no openat2)",
    };
    writeln!(out, "  file tools    works    {resolver}")?;
    writeln!(out, "  run_command   {}", if sandbox.commands { "works" } else { "refused" })?;
    match &sandbox.proxy.why {
        None => {
            writeln!(out, "  net proxy     works    for the hosts of [net] allow and of [mcp.NAME] network")?
        }
        Some(why) => writeln!(out, "  net proxy     refused  {why}")?,
    }
    if let Some(why) = &sandbox.closed {
        writeln!(out, "  workspace     closed   {why}")?;
    }
    for state in &sandbox.layers {
        let word = if state.works { "works" } else { "missing" };
        writeln!(out, "    {:<12}{word:<9}{}", state.layer.name(), state.found)?;
        if !state.works {
            for (label, text) in [("get it", &state.remedy), ("without", &state.without)] {
                if let Some(text) = text {
                    writeln!(out, "                {label}: {text}")?;
                }
            }
        }
    }
    print_reduced(sandbox, out)?;
    let components = &sandbox.components;
    let word = if components.works { "works" } else { "refused" };
    writeln!(out, "  components    {word:<9}{}", components.found)?;
    let processor = &report.processor;
    writeln!(out, "processor")?;
    writeln!(
        out,
        "  {}, {} cores: {}",
        processor.architecture,
        processor.cores,
        processor.features.join(" ")
    )?;
    if !processor.missing.is_empty() {
        writeln!(
            out,
            "  missing: {} (models run slower, or not with this build)",
            processor.missing.join(" ")
        )?;
    }
    print_devices(report, out)?;
    writeln!(out, "models")?;
    match (&report.models.directory, &report.models.problem) {
        (Some(directory), _) => {
            let present = match report.models.present.as_slice() {
                [] => "none; toolgate model pull fetches one".to_owned(),
                present => present.join(", "),
            };
            writeln!(out, "  in {}: {present}", directory.display())?;
        }
        (None, problem) => writeln!(out, "  {}", problem.as_deref().unwrap_or("no cache directory"))?,
    }
    writeln!(out, "build")?;
    let Build { version, profile, system, .. } = &report.build;
    writeln!(out, "  toolgate {version}, {profile}, {system}")
}

/// What could evaluate a model, and what does.
fn print_devices(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "devices")?;
    for device in &report.devices {
        let FoundDevice { name, description, backend, kind, memory_free, memory_total, .. } = device;
        let word = if device.used { "used" } else { "not used" };
        let (free, total) = (memory_free >> 20, memory_total >> 20);
        let memory = if total > 0 { format!(", {free} of {total} MiB free") } else { String::new() };
        let description = output::for_terminal(description.trim());
        writeln!(out, "  {name:<12}  {word:<9}{kind}, {backend}: {description}{memory}")?;
        if let Some(why) = &device.why_not {
            writeln!(out, "                {why}")?;
        }
    }
    let missing = toolgate_llama::device_features().into_iter().filter(|(_, built)| !built);
    let missing: Vec<&str> = missing.map(|(name, _)| name).collect();
    writeln!(out, "  not built in: {} (--features of the build)", missing.join(", "))
}

fn devices() -> anyhow::Result<Vec<FoundDevice>> {
    let auto = toolgate_llama::choose_device(&Device::Auto)?;
    let used = auto.as_ref().map(|device| device.name.as_str());
    let found = toolgate_llama::devices().into_iter();
    Ok(found.map(|device| judged(device, used)).collect())
}

/// A device, where `--device auto` takes the graphics processor of this name, or the processor.
fn judged(device: toolgate_llama::FoundDevice, used: Option<&str>) -> FoundDevice {
    let why_not = match (device.kind, used) {
        (DeviceKind::Processor, None) => None,
        (_, Some(name)) if name == device.name => None,
        (DeviceKind::Processor, Some(name)) => {
            Some(format!("{name} evaluates models; --device cpu takes this one"))
        }
        (DeviceKind::Accelerator, _) => Some("it only helps the processor".to_owned()),
        (_, Some(name)) => Some(format!(
            "--device auto takes {name}: dedicated before integrated, then the one with the most free memory; where it has no room for a \
             model, all that are alike are used"
        )),
        (_, None) => Some("--device auto does not take it".to_owned()),
    };
    FoundDevice {
        kind: device.kind.name(),
        used: why_not.is_none(),
        why_not,
        name: device.name,
        description: device.description,
        backend: device.backend,
        memory_free: device.memory_free,
        memory_total: device.memory_total,
    }
}

fn built_in() -> Vec<&'static str> {
    let built = toolgate_llama::device_features().into_iter().filter(|(_, built)| *built);
    built.map(|(name, _)| name).collect()
}

/// The reduced tier; what it leaves open where nothing better works.
fn print_reduced(sandbox: &Sandbox, out: &mut dyn Write) -> std::io::Result<()> {
    let Reduced { works, found, weaker } = &sandbox.reduced;
    let word = if *works { "works" } else { "refused" };
    writeln!(out, "  reduced       {word:<9}{found}")?;
    if *works && !sandbox.commands {
        writeln!(out, "                a policy must ask for it: [require] confinement = \"reduced\"")?;
        for open in weaker {
            writeln!(out, "                open: {open}")?;
        }
    }
    Ok(())
}

fn reduced(root: &Root) -> Reduced {
    match Commands::reduced(root, &Setup::default()) {
        Ok(held) => Reduced { works: true, found: held.layers.join(", "), weaker: held.weaker },
        Err(why) => Reduced { works: false, found: why.to_string(), weaker: Vec::new() },
    }
}

fn components(root: &Root) -> Components {
    match components::tried(root) {
        Ok(found) => Components { works: true, found },
        Err(why) => Components { works: false, found: why.to_string() },
    }
}

fn processor() -> Processor {
    let instructions = toolgate_llama::instructions();
    let named = |wanted: &dyn Fn(&Instructions) -> bool| -> Vec<&'static str> {
        instructions.iter().filter(|set| wanted(set)).map(|set| set.name).collect()
    };
    let mut features = named(&|set| set.there);
    let mut missing = named(&|set| set.used && !set.there);
    features.sort_unstable();
    missing.sort_unstable();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Processor { architecture: std::env::consts::ARCH, cores, features, missing }
}

fn models() -> Models {
    match Store::open() {
        Ok(store) => Models {
            directory: Some(store.directory().to_owned()),
            present: store
                .catalogue()
                .entries()
                .filter(|entry| matches!(store.presence(entry), Presence::Present { .. }))
                .map(|entry| entry.id.clone())
                .collect(),
            problem: None,
        },
        Err(error) => Models { directory: None, present: Vec::new(), problem: Some(error.to_string()) },
    }
}
