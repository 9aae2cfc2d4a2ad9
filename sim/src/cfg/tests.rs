use super::{Effort, Flow, Graph, Touches};

fn graph(flows: &[Flow]) -> Graph {
    Graph::new(flows, &Effort::for_text(0)).expect("small")
}

/// Computes the live ranges from their definition: iterates sets of live registers to a fixed point.
fn by_sets(flows: &[Flow], touches: &[Touches], registers: usize) -> Vec<Option<(usize, usize)>> {
    let follow = |at: usize| {
        let next = (flows[at].falls && at + 1 < flows.len()).then_some(at + 1);
        flows[at].targets.iter().map(|&target| target as usize).chain(next).collect::<Vec<_>>()
    };
    let mut live = vec![vec![false; registers]; flows.len()];
    for _ in 0..=flows.len() {
        for at in (0..flows.len()).rev() {
            let mut set: Vec<bool> =
                (0..registers).map(|r| follow(at).iter().any(|&next| live[next][r])).collect();
            touches[at].writes.iter().filter(|write| write.1).for_each(|w| set[w.0 as usize] = false);
            touches[at].reads.iter().for_each(|&read| set[read as usize] = true);
            live[at] = set;
        }
    }
    let of = |register: usize| {
        let named = |at: usize| {
            let reads = touches[at].reads.contains(&(register as u32)).then_some((at, at));
            let writes = touches[at].writes.iter().any(|write| write.0 == register as u32);
            [reads, writes.then_some((at, at + 1)), live[at][register].then_some((at, at))]
        };
        let flows = (0..flows.len()).flat_map(|at| {
            let out = follow(at).iter().any(|&next| live[next][register]);
            named(at).into_iter().chain([out.then_some((at + 1, at + 1))])
        });
        flows.flatten().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    (0..registers).map(of).collect()
}

#[test]
fn live_ranges_match_their_definition() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..300 {
        let n = 1 + random(12) as usize;
        let flows: Vec<Flow> = (0..n)
            .map(|_| match random(4) {
                0 => branch(random(n as u64) as u32),
                1 => jump(random(n as u64) as u32),
                2 => end(),
                _ => next(),
            })
            .collect();
        let touches: Vec<Touches> = (0..n)
            .map(|_| Touches {
                reads: (0..random(3)).map(|_| random(4) as u32).collect(),
                writes: (0..random(2)).map(|_| (random(4) as u32, random(2) == 0)).collect(),
            })
            .collect();
        let ranges = graph(&flows).live_ranges(&touches, 4, &Effort::for_text(0)).expect("small");
        assert_eq!(ranges, by_sets(&flows, &touches, 4), "{flows:?} {touches:?}");
    }
}

fn next() -> Flow {
    Flow { falls: true, ..Flow::default() }
}

fn branch(target: u32) -> Flow {
    Flow { targets: vec![target], falls: true, converges: false }
}

fn jump(target: u32) -> Flow {
    Flow { targets: vec![target], falls: false, converges: false }
}

fn end() -> Flow {
    Flow::default()
}

fn meet() -> Flow {
    Flow { falls: true, converges: true, ..Flow::default() }
}

#[test]
fn if_else_joins_after_both_sides() {
    let graph = graph(&[branch(3), next(), jump(4), next(), end()]);
    assert_eq!(graph.join(0), Some(4));
}

#[test]
fn a_loop_joins_at_its_exit() {
    let graph = graph(&[next(), next(), branch(1), end()]);
    assert_eq!(graph.join(2), Some(3));
}

#[test]
fn nested_branches_join_inside_out() {
    let graph = graph(&[branch(5), branch(3), next(), next(), next(), end()]);
    assert_eq!(graph.join(0), Some(5));
    assert_eq!(graph.join(1), Some(3));
}

#[test]
fn blocks_that_reach_a_barrier_are_marked() {
    let graph = graph(&[branch(4), next(), meet(), jump(4), end()]);
    assert_eq!(graph.join(0), Some(4));
    assert!(graph.meets(0) && graph.meets(1) && graph.meets(2) && !graph.meets(4));
}

#[test]
fn an_endless_loop_joins_nowhere() {
    let graph = graph(&[branch(2), end(), jump(2)]);
    assert_eq!(graph.join(2), None);
}

#[test]
fn live_ranges_span_loops() {
    // r0 is set before the loop and read in it; r1 is live in one instruction only.
    let flows = [next(), next(), branch(1), end()];
    let mut touches = vec![Touches::default(); 4];
    touches[0].writes.push((0, true));
    touches[1].reads.push(0);
    touches[1].writes.push((1, true));
    let ranges = graph(&flows).live_ranges(&touches, 3, &Effort::for_text(0)).expect("small");
    assert_eq!(ranges, [Some((0, 3)), Some((1, 2)), None]);
}
