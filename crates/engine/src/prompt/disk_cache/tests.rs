//! PromptCache on a disk: what is put back, what is not, and what goes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;

struct Disk {
    _dir: tempfile::TempDir,
    model: PathBuf,
    packs: PathBuf,
}

fn disk() -> Disk {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model.gguf");
    fs::write(&model, vec![7; 100_000]).unwrap();
    let packs = dir.path().join("packs");
    Disk { _dir: dir, model, packs }
}

fn packs(disk: &Disk, limit: u64) -> PromptCache {
    PromptCache::of(&disk.model, &disk.packs, limit).unwrap()
}

fn tokens(len: u32) -> Vec<TokenId> {
    (0..len).collect()
}

/// More than any pack here has.
const ROOM: usize = 1_000;

#[test]
fn a_state_comes_back_for_what_begins_like_its_tokens() {
    let disk = disk();
    let saved = packs(&disk, DEFAULT_LIMIT);
    saved.save("key", &tokens(100), b"state of 100", Extent::Whole);
    saved.save("key", &tokens(200), b"state of 200", Extent::Whole);
    let fresh = packs(&disk, DEFAULT_LIMIT);
    let find = |key: &str, prompt: &[TokenId], held| {
        fresh
            .find(key, prompt, held, ROOM)
            .map(|(tokens, state)| (tokens.len(), String::from_utf8(state).unwrap()))
    };
    assert_eq!(find("key", &tokens(300), 0), Some((200, "state of 200".to_owned())));
    let other: Vec<_> = tokens(90).into_iter().chain([7, 7]).collect();
    assert_eq!(
        find("key", &other, 0),
        Some((100, "state of 100".to_owned())),
        "what two prompts share is reused, of the shorter pack"
    );
    assert_eq!(find("key", &other, 80), None, "little more than what is held is not worth reading");
    let small = fresh.find("key", &tokens(300), 0, 150);
    assert_eq!(small.unwrap().0.len(), 100, "one that a sequence has no room for is left alone");
    assert_eq!(find("another key", &tokens(300), 0), None);
    assert_eq!(find("key", &[9, 9, 9], 0), None);
    fs::write(&disk.model, vec![8; 100_000]).unwrap();
    assert!(packs(&disk, DEFAULT_LIMIT).find("key", &tokens(300), 0, ROOM).is_none(), "of another model");
    assert_eq!((fresh.list().len(), packs(&disk, DEFAULT_LIMIT).list().len()), (2, 0));
}

/// What is read ahead is the pack used last; it is whole by itself, and the file is asked for any other and any further time.
#[test]
fn a_pack_read_ahead_comes_back_once_and_for_itself() {
    let disk = disk();
    let saved = packs(&disk, DEFAULT_LIMIT);
    saved.read_ahead();
    saved.save("key", &tokens(100), b"state of 100", Extent::Whole);
    let earlier = SystemTime::now() - Duration::from_secs(60);
    let first = saved.list().remove(0).path;
    File::options().append(true).open(&first).unwrap().set_modified(earlier).unwrap();
    let other: Vec<_> = (500..700).collect();
    saved.save("key", &other, b"another state", Extent::Whole);
    let ahead = packs(&disk, DEFAULT_LIMIT);
    ahead.read_ahead();
    let waiting = || lock(&ahead.ahead).as_ref().map(|ahead| ahead.path.clone());
    let second = waiting().unwrap();
    assert_ne!(second, first, "the one used last");
    while !lock(&ahead.ahead).as_ref().unwrap().reading.is_finished() {
        thread::yield_now();
    }
    // What lies in the file's place by now is not read; it has the same front.
    let mut bytes = fs::read(&second).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::write(&second, bytes).unwrap();
    assert_eq!(ahead.find("key", &other, 0, ROOM).unwrap().1, b"another state");
    assert_eq!((waiting(), ahead.find("key", &other, 0, ROOM)), (None, None), "control: the file is damaged");
    ahead.read_ahead();
    assert!(waiting().is_some());
    assert_eq!(ahead.find("key", &tokens(100), 0, ROOM).unwrap().1, b"state of 100");
    assert_eq!(waiting(), None, "a prompt that wants another one leaves none in memory");
}

/// Whatever is done to a file, what comes back is what was saved, or nothing.
#[test]
fn a_damaged_pack_is_ignored_and_removed() {
    let disk = disk();
    let packs = packs(&disk, DEFAULT_LIMIT);
    packs.save("key", &tokens(100), &[5; 1_000], Extent::Whole);
    let path = packs.list().remove(0).path;
    let whole = fs::read(&path).unwrap();
    let damages: Vec<Vec<u8>> = (0..whole.len())
        .step_by(37)
        .map(|at| {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            damaged
        })
        .chain((0..whole.len()).step_by(41).map(|len| whole[..len].to_vec()))
        .chain([[whole.clone(), vec![0]].concat(), vec![0xff; 5_000], Vec::new()])
        .collect();
    assert!(damages.len() > 50);
    for damaged in damages {
        fs::write(&path, &damaged).unwrap();
        assert!(packs.find("key", &tokens(100), 0, ROOM).is_none());
    }
    assert!(!path.exists(), "the last was nothing at all");
    fs::write(&path, &whole).unwrap();
    assert_eq!(packs.find("key", &tokens(100), 0, ROOM).unwrap(), (tokens(100), vec![5; 1_000]));
}

#[test]
fn what_was_learned_comes_back_for_exactly_its_tokens() {
    let disk = disk();
    let packs = packs(&disk, DEFAULT_LIMIT);
    packs.save(&learned("key"), &tokens(100), b"some weights", Extent::Whole);
    let found = |key: &str, len| packs.find_exactly(key, &tokens(len)).map(|(_, state)| state);
    assert_eq!(found(&learned("key"), 100).as_deref(), Some(&b"some weights"[..]));
    assert!(found(&learned("key"), 101).is_none() && found("key", 100).is_none());
    assert!(packs.list().is_empty(), "it is no pack to people");
}

#[test]
fn a_pack_of_another_version_stays_where_it_is() {
    let disk = disk();
    let packs = packs(&disk, DEFAULT_LIMIT);
    packs.save("key", &tokens(100), &[5; 10], Extent::Whole);
    let path = packs.list().remove(0).path;
    let mut other = fs::read(&path).unwrap();
    other[7] += 1;
    fs::write(&path, other).unwrap();
    assert!(packs.find("key", &tokens(100), 0, ROOM).is_none() && path.exists());
}

#[test]
fn the_pack_used_longest_ago_goes_first() {
    let disk = disk();
    let packs = packs(&disk, 4_000);
    let age = |first: TokenId, seconds| {
        let path = packs.path("key", &[vec![first], tokens(100)].concat());
        let time = SystemTime::now() - Duration::from_secs(seconds);
        File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let save =
        |first: TokenId| packs.save("key", &[vec![first], tokens(100)].concat(), &[1; 1_000], Extent::Whole);
    let is_there = |first: TokenId| packs.path("key", &[vec![first], tokens(100)].concat()).exists();
    save(1000);
    age(1000, 300);
    save(2000);
    age(2000, 200);
    // Used again, the older one is the newer.
    assert!(packs.find("key", &[vec![1000], tokens(100)].concat(), 0, ROOM).is_some());
    save(3000);
    assert!(is_there(1000) && !is_there(2000) && is_there(3000));
    packs.save("key", &tokens(100), &[1; 3_000], Extent::Whole);
    assert!(!packs.path("key", &tokens(100)).exists(), "one that would fill the directory is not kept");
}

#[test]
fn a_directory_that_cannot_be_written_costs_nothing_but_the_pack() {
    let disk = disk();
    fs::write(&disk.packs, "a file where the directory would be").unwrap();
    let packs = packs(&disk, DEFAULT_LIMIT);
    packs.save("key", &tokens(100), b"state", Extent::Whole);
    assert!(packs.find("key", &tokens(100), 0, ROOM).is_none() && packs.list().is_empty());
}

#[cfg(unix)]
#[test]
fn packs_are_for_their_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let disk = disk();
    let packs = packs(&disk, DEFAULT_LIMIT);
    packs.save("key", &tokens(100), b"state", Extent::Whole);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!((mode(&disk.packs), mode(&packs.list()[0].path)), (0, 0));
}

#[test]
fn threads_that_save_and_find_at_once_see_whole_packs() {
    let disk = disk();
    let packs = packs(&disk, 12_000);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let packs = packs.clone();
            scope.spawn(move || {
                for round in 0..25_u8 {
                    let first = TokenId::from((thread + round) % 6);
                    let prompt = [vec![1_000 + first], tokens(100)].concat();
                    packs.save("key", &prompt, &vec![first as u8; 1_500], Extent::Whole);
                    if let Some((tokens, state)) = packs.find("key", &prompt, 0, ROOM) {
                        assert_eq!((tokens, state), (prompt, vec![first as u8; 1_500]));
                    }
                }
            });
        }
    });
    assert!(packs.list().len() <= 6);
}

#[test]
fn a_part_gives_way_to_what_goes_on_from_it_and_to_nothing_else() {
    let disk = disk();
    let packs = packs(&disk, DEFAULT_LIMIT);
    let lengths = || {
        let mut lengths: Vec<u64> = packs.list().into_iter().map(|pack| pack.tokens).collect();
        lengths.sort_unstable();
        lengths
    };
    let other: Vec<_> = (500..650).collect();
    packs.save("key", &tokens(100), b"whole", Extent::Whole);
    packs.save("key", &tokens(200), b"part", Extent::Part);
    packs.save("key", &other, b"part of another", Extent::Part);
    packs.save("another key", &tokens(210), b"part on another backend", Extent::Part);
    assert_eq!(lengths(), [100, 150, 200, 210]);
    assert_eq!(packs.find("key", &tokens(400), 0, ROOM).unwrap(), (tokens(200), b"part".to_vec()));
    packs.save("key", &tokens(300), b"more of it", Extent::Part);
    assert_eq!(lengths(), [100, 150, 210, 300]);
    packs.save("key", &tokens(300), b"that was all", Extent::Whole);
    assert_eq!(lengths(), [100, 150, 210, 300]);
    packs.save("key", &tokens(400), b"another that begins so", Extent::Whole);
    assert_eq!(lengths(), [100, 150, 210, 300, 400], "a whole one stays beside what begins like it");
}
