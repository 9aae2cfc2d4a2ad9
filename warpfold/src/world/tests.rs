//! Peers that violate the protocol: whatever they send, a rank returns an error of one line in time.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{
    Hub, Wire,
    frame::{Answer, Hello, Request, VERSION, receive, send},
    rendezvous::Rendezvous,
};
use crate::Result;

const TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for an error: `TIMEOUT`, [`GRACE`](super::GRACE), and delays of a busy machine.
const IN_TIME: Duration = Duration::from_secs(60);

const HOSTILE: &str = "one\ntwo\r\u{1b}[2J\u{202e}three";

fn in_a_while() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn trickle(stream: &mut TcpStream, bytes: &[u8]) {
    for byte in bytes.iter().cycle().take(100) {
        if stream.write_all(&[*byte]).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn read_to_end(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(IN_TIME));
    while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
}

fn free_address() -> String {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string()
}

fn meeting(rank: u32, size: u32, address: &str, timeout: Duration) -> Rendezvous {
    Rendezvous::new(rank, size, address).unwrap().with_timeout(timeout)
}

#[track_caller]
fn error_of<T>(case: &str, call: impl FnOnce() -> Result<T>) -> String {
    let start = Instant::now();
    let Err(error) = call() else { panic!("{case}: no error") };
    assert!(start.elapsed() < IN_TIME, "{case}: {:?}", start.elapsed());
    let error = error.to_string();
    assert!(!error.contains(|c: char| c.is_control() || c == '\u{202e}'), "{case}: {error:?}");
    assert!(error.len() < 3000, "{case}: {} bytes", error.len());
    error
}

type Peer = fn(&mut TcpStream);

fn error_of_rank_1(case: &str, answers: Peer) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            receive::<Hello>(&mut stream, Some(in_a_while())).unwrap();
            send(&mut stream, &Answer::Welcome, in_a_while()).unwrap();
            receive::<Request>(&mut stream, Some(in_a_while())).unwrap();
            answers(&mut stream);
            read_to_end(stream);
        });
        let mut wire = Wire::join(&meeting(1, 2, &address, TIMEOUT), String::new()).unwrap();
        let error = error_of(case, || wire.gather("a test", Ok(vec![1])));
        // Later calls fail at once.
        error_of(case, || wire.lost_so_far().map_or(Ok(()), Err).and(wire.gather("it", Ok(vec![]))));
        error
    })
}

#[test]
fn invalid_answers_of_rank_0_fail_in_time() {
    fn tell(stream: &mut TcpStream, answer: &Answer) {
        let _ = send(stream, answer, in_a_while());
    }
    let cases: [(&str, Peer, &str); 13] = [
        ("fewer parts", |to| tell(to, &Answer::All(vec![vec![1]])), "the parts of 1 ranks, not of 2"),
        ("more parts", |to| tell(to, &Answer::All(vec![vec![]; 3])), "the parts of 3 ranks, not of 2"),
        ("many parts", |to| tell(to, &Answer::All(vec![vec![]; 1_000_000])), "1000000 ranks"),
        ("no parts", |to| tell(to, &Answer::All(vec![])), "the parts of 0 ranks"),
        ("a welcome", |to| tell(to, &Answer::Welcome), "malformed message"),
        ("a hostile end", |to| tell(to, &Answer::Lost(HOSTILE.to_owned())), "one\\ntwo\\r\\u{1b}[2J"),
        ("a long end", |to| tell(to, &Answer::Lost("x".repeat(100_000))), "xxx…; start all ranks"),
        ("garbage", |to| to.write_all(&[4, 0, 0, 0, 9, 9, 9, 9]).unwrap(), "malformed message"),
        ("a length", |to| to.write_all(&[0xff; 64]).unwrap(), "malformed message"),
        ("an end", |to| to.shutdown(std::net::Shutdown::Both).unwrap(), "its connection has ended"),
        ("half a message", |to| to.write_all(&[9, 0, 0]).unwrap(), "it does not answer in time"),
        ("byte by byte", |to| trickle(to, &[255, 15, 0, 0, 1]), "it does not answer in time"),
        (
            "a flood",
            |to| {
                to.set_nonblocking(true).unwrap();
                let start = Instant::now();
                // Repeats `Answer::WhoWaits`. If the socket's buffer is full, a part of a message is
                // written, and the next write continues after it.
                let message = [1, 0, 0, 0, 3];
                let mut sent = 0;
                while start.elapsed() < IN_TIME / 2 {
                    match to.write(&message[sent % message.len()..]) {
                        Ok(written) => sent += written,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(_) => break,
                    }
                    let _ = to.read(&mut [0; 64]);
                }
                to.set_nonblocking(false).unwrap();
            },
            "rank 0 is gone",
        ),
    ];
    thread::scope(|scope| {
        for (case, answers, what) in cases {
            scope.spawn(move || {
                let error = error_of_rank_1(case, answers);
                assert!(error.contains(what), "{case}: {error}");
            });
        }
    });
    let error = error_of_rank_1("void", |to| tell(to, &Answer::Void(HOSTILE.to_owned())));
    assert!(error.contains("\\u{202e}three"), "{error}");
}

#[test]
fn join_fails_in_time_without_a_valid_rank_0() {
    let cases: [(&str, Peer, &str); 3] = [
        ("nothing", |_| {}, "does not admit rank 1 (it does not answer in time)"),
        ("another answer", |to| _ = send(to, &Answer::WhoWaits, in_a_while()), "does not answer as"),
        ("a refusal", |to| _ = send(to, &Answer::Lost(HOSTILE.into()), in_a_while()), "one\\ntwo\\r"),
    ];
    for (case, answers, what) in cases {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            receive::<Hello>(&mut stream, Some(in_a_while())).unwrap();
            answers(&mut stream);
            read_to_end(stream);
        });
        let joined = || Wire::join(&meeting(1, 2, &address, TIMEOUT), String::new());
        let error = error_of(case, joined);
        assert!(error.contains(what), "{case}: {error}");
        peer.join().unwrap();
    }
}

fn rank_1(address: &str, device: &str) -> TcpStream {
    let start = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(start.elapsed() < IN_TIME, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    let device = device.to_owned();
    let hello = Hello { magic: Hello::MAGIC, version: VERSION, job: 0, size: 2, rank: 1, device };
    send(&mut stream, &hello, in_a_while()).unwrap();
    stream
}

/// The mistake of a rank that joins before rank 0 is the reason that rank 0 gets.
#[test]
fn mistake_before_rank_0_joins_is_named() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _hub = Hub::start(listener, (0, 2), TIMEOUT).unwrap();
    let hello = |size, rank| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let device = String::new();
        let hello = Hello { magic: Hello::MAGIC, version: VERSION, job: 0, size, rank, device };
        send(&mut stream, &hello, in_a_while()).unwrap();
        stream
    };
    let mistaken = hello(3, 1);
    thread::sleep(Duration::from_millis(300));
    let own = hello(2, 0);
    for mut stream in [own, mistaken] {
        let answer = receive::<Answer>(&mut stream, Some(in_a_while())).unwrap();
        let Answer::Lost(reason) = answer else { panic!("{answer:?}") };
        assert!(reason.contains("rank 1 expects 3 ranks, but rank 0 expects 2"), "{reason}");
    }
}

#[test]
fn invalid_requests_of_a_rank_fail_in_time() {
    fn tell(stream: &mut TcpStream, said: &Request) {
        let _ = send(stream, said, in_a_while());
    }
    fn gather(what: &str) -> Request {
        Request::Gather { what: what.to_owned(), part: Ok(Vec::new()) }
    }
    let cases: [(&str, Peer, &str); 11] = [
        ("nothing", |_| {}, "rank 1 did not arrive within 2 s"),
        ("garbage", |to| to.write_all(&[4, 0, 0, 0, 9, 9, 9, 9]).unwrap(), "rank 1 sent a malformed"),
        ("a length", |to| to.write_all(&[0, 0, 1, 0]).unwrap(), "rank 1 sent a malformed message"),
        ("half a message", |to| to.write_all(&[9, 0, 0]).unwrap(), "rank 1 did not arrive within"),
        ("byte by byte", |to| trickle(to, &[255, 15, 0, 0, 0]), "rank 1 did not arrive within"),
        ("a hostile end", |to| tell(to, &Request::Broken(HOSTILE.to_owned())), "continue: one\\ntwo\\r"),
        (
            "another name",
            |to| tell(to, &gather(HOSTILE)),
            "rank 1 is at one\\ntwo\\r\\u{1b}[2J\\u{202e}",
        ),
        (
            "a failure",
            |to| tell(to, &Request::Gather { what: "a test".into(), part: Err(HOSTILE.into()) }),
            "rank 1 failed: one\\ntwo\\r",
        ),
        (
            "a part after its end",
            |to| [Request::Bye(0), gather("a test")].iter().for_each(|said| tell(to, said)),
            "rank 1 ",
        ),
        (
            "parts and parts",
            |to| (0..1000).for_each(|_| tell(to, &gather("a test"))),
            "rank 1 sent a malformed message",
        ),
        (
            "a flood",
            |to| {
                let start = Instant::now();
                let waits = Request::Waits { number: 0, too_long: false };
                while start.elapsed() < IN_TIME / 2 && send(to, &waits, in_a_while()).is_ok() {}
            },
            "rank 1 did not arrive within 2 s",
        ),
    ];
    thread::scope(|scope| {
        for (case, says, what) in cases {
            scope.spawn(move || {
                let address = free_address();
                let peer = thread::spawn({
                    let address = address.clone();
                    move || {
                        let mut stream = rank_1(&address, "");
                        receive::<Answer>(&mut stream, Some(in_a_while())).unwrap();
                        says(&mut stream);
                        read_to_end(stream);
                    }
                });
                let mut wire = Wire::join(&meeting(0, 2, &address, TIMEOUT), String::new()).unwrap();
                let mut error = String::new();
                // In some cases the first exchanges succeed.
                for _ in 0..1000 {
                    if let Err(failed) = wire.gather("a test", Ok(vec![1])) {
                        error = error_of(case, || Err::<(), _>(failed));
                        break;
                    }
                }
                assert!(error.contains(what), "{case}: {error}");
                drop(wire);
                peer.join().unwrap();
            });
        }
    });
}

#[test]
fn a_device_of_a_hostile_name_is_named_in_one_line() {
    let address = free_address();
    thread::scope(|scope| {
        scope.spawn(|| read_to_end(rank_1(&address, HOSTILE)));
        let joined = || Wire::join(&meeting(0, 2, &address, TIMEOUT * 10), String::new());
        let error = error_of("a device", joined);
        assert!(error.contains("one\\ntwo\\r\\u{1b}[2J\\u{202e}three"), "{error}");
    });
}

#[test]
fn rank_0_does_not_wait_for_ever_for_a_rank_that_stays() {
    let address = free_address();
    let peer = thread::spawn({
        let address = address.clone();
        move || {
            let mut stream = rank_1(&address, "");
            receive::<Answer>(&mut stream, Some(in_a_while())).unwrap();
            loop {
                let answer = receive::<Answer>(&mut stream, Some(in_a_while())).unwrap();
                if let Answer::Lost(reason) = answer {
                    return reason;
                }
            }
        }
    });
    let wire = Wire::join(&meeting(0, 2, &address, TIMEOUT), String::new()).unwrap();
    let start = Instant::now();
    drop(wire);
    assert!(start.elapsed() < IN_TIME, "{:?}", start.elapsed());
    assert_eq!(peer.join().unwrap(), "rank 0 has left, and rank 1 did not within 2 s");
}

#[test]
fn maximum_timeout_does_not_overflow() {
    let address = free_address();
    let rank = |rank| {
        let mut wire = Wire::join(&meeting(rank, 2, &address, Duration::MAX), String::new()).unwrap();
        wire.gather("a test", Ok(vec![rank as u8])).unwrap()
    };
    thread::scope(|scope| {
        let ranks = [0, 1].map(|number| scope.spawn(move || rank(number)));
        for of_rank in ranks {
            assert_eq!(of_rank.join().unwrap(), [[0], [1]]);
        }
    });
    error_of("no time", || Wire::join(&meeting(1, 2, &free_address(), Duration::ZERO), String::new()));
    error_of("no time", || Wire::join(&meeting(0, 2, &free_address(), Duration::ZERO), String::new()));
}

/// Rank 1 leaves after it has taken part in an exchange, while rank 0 is still in it. The error belongs
/// to the next exchange.
#[test]
fn departed_rank_is_named_in_the_next_exchange() {
    let address = free_address();
    let join = |rank| Wire::join(&meeting(rank, 2, &address, TIMEOUT), String::new()).unwrap();
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            let mut leaving = join(1);
            leaving.begin_exchange();
        });
        let mut staying = join(0);
        staying.begin_exchange();
        while !staying.was_asked() {
            assert!(staying.lost_while_waiting().is_none());
        }
        staying.begin_exchange();
        let start = Instant::now();
        loop {
            match staying.lost_while_waiting() {
                Some(error) => break error.to_string(),
                None => assert!(start.elapsed() < TIMEOUT, "nothing is heard of it"),
            }
        }
    });
    assert!(error.contains("rank 1 has left, and rank 0 waits for it"), "{error}");
}
