//! The code by which NVIDIA's runtime recognises its driver: HMAC (RFC 2104) with MD2 (RFC 1319) over
//! numbers that caller and driver both know.

/// Length of MD2's blocks and digests.
const BLOCK: usize = 16;

/// The key of the HMAC.
const KEY: [u8; BLOCK] = 0x146a_ddae_53a9_a752_aa08_4136_0bf5_5a9f_u128.to_be_bytes();

/// The second half of the codes that are constants, as a number.
const CONSTANT: u64 = 0x8ed3_83aa_1f4c_d1e8;

/// The numbers that the code depends on.
pub(super) struct Input {
    pub(super) driver: u32,
    /// Version of the runtime, whose last decimal digit chooses the kind of code.
    pub(super) runtime: u32,
    pub(super) process: u32,
    pub(super) thread: u32,
    /// Addresses of the runtime's table and of the integrity table.
    pub(super) tables: [u64; 2],
    /// Address of the function that returns the code.
    pub(super) function: u64,
    /// Seconds since 1970, as the caller gives them.
    pub(super) seconds: u64,
    pub(super) devices: Vec<Identity>,
}

/// The identifiers of a device.
pub(crate) struct Identity {
    pub(crate) uuid: [u8; 16],
    /// PCI domain, bus and device.
    pub(crate) pci: [i32; 3],
}

pub(super) fn code(input: &Input) -> [u8; BLOCK] {
    let constant = match input.runtime % 10 {
        0 => 0x3341_181c_03cb_675c_u64,
        1 => 0x1841_181c_03cb_675c,
        _ => return hmac(&input.message()),
    };
    let mut code = [0; BLOCK];
    code[..8].copy_from_slice(&constant.to_ne_bytes());
    code[8..].copy_from_slice(&CONSTANT.to_ne_bytes());
    code
}

impl Input {
    fn message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        for number in [self.driver, self.runtime, self.process, self.thread] {
            message.extend(number.to_ne_bytes());
        }
        for number in [self.tables[0], self.tables[1], self.function, self.seconds] {
            message.extend(number.to_ne_bytes());
        }
        for device in &self.devices {
            message.extend(device.uuid);
            message.extend(device.pci.iter().flat_map(|number| number.to_ne_bytes()));
        }
        message
    }
}

fn hmac(message: &[u8]) -> [u8; BLOCK] {
    let padded = |pad: u8| KEY.map(|byte| byte ^ pad);
    let inner = md2(&[&padded(0x36), message].concat());
    md2(&[padded(0x5c), inner].concat())
}

/// MD2's permutation of the bytes, from the digits of pi.
const PERMUTATION: [u8; 256] = [
    41, 46, 67, 201, 162, 216, 124, 1, 61, 54, 84, 161, 236, 240, 6, 19, 98, 167, 5, 243, 192, 199, 115,
    140, 152, 147, 43, 217, 188, 76, 130, 202, 30, 155, 87, 60, 253, 212, 224, 22, 103, 66, 111, 24,
    138, 23, 229, 18, 190, 78, 196, 214, 218, 158, 222, 73, 160, 251, 245, 142, 187, 47, 238, 122, 169,
    104, 121, 145, 21, 178, 7, 63, 148, 194, 16, 137, 11, 34, 95, 33, 128, 127, 93, 154, 90, 144, 50,
    39, 53, 62, 204, 231, 191, 247, 151, 3, 255, 25, 48, 179, 72, 165, 181, 209, 215, 94, 146, 42, 172,
    86, 170, 198, 79, 184, 56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4, 241, 69, 157,
    112, 89, 100, 113, 135, 32, 134, 91, 207, 101, 230, 45, 168, 2, 27, 96, 37, 173, 174, 176, 185, 246,
    28, 70, 97, 105, 52, 64, 126, 15, 85, 71, 163, 35, 221, 81, 175, 58, 195, 92, 249, 206, 186, 197,
    234, 38, 44, 83, 13, 110, 133, 40, 132, 9, 211, 223, 205, 244, 65, 129, 77, 82, 106, 220, 55, 200,
    108, 193, 171, 250, 36, 225, 123, 8, 12, 189, 177, 74, 120, 136, 149, 139, 227, 99, 232, 109, 233,
    203, 213, 254, 59, 0, 29, 57, 242, 239, 183, 14, 102, 88, 208, 228, 166, 119, 114, 248, 235, 117,
    75, 10, 49, 68, 80, 180, 143, 237, 31, 26, 219, 153, 141, 51, 159, 17, 131, 20,
];

fn md2(message: &[u8]) -> [u8; BLOCK] {
    let padding = BLOCK - message.len() % BLOCK;
    let mut text = message.to_vec();
    text.resize(message.len() + padding, padding as u8);
    let (mut checksum, mut last) = ([0; BLOCK], 0);
    for block in text.chunks_exact(BLOCK) {
        for (sum, byte) in checksum.iter_mut().zip(block) {
            *sum ^= PERMUTATION[usize::from(byte ^ last)];
            last = *sum;
        }
    }
    text.extend(checksum);
    let mut digest = [0; BLOCK];
    for block in text.chunks_exact(BLOCK) {
        compress(&mut digest, block);
    }
    digest
}

fn compress(digest: &mut [u8; BLOCK], block: &[u8]) {
    let mut state = [0_u8; 3 * BLOCK];
    for (index, (&before, &byte)) in digest.iter().zip(block).enumerate() {
        (state[index], state[BLOCK + index], state[2 * BLOCK + index]) = (before, byte, before ^ byte);
    }
    let mut carry = 0_u8;
    for round in 0..18 {
        for byte in &mut state {
            *byte ^= PERMUTATION[usize::from(carry)];
            carry = *byte;
        }
        carry = carry.wrapping_add(round);
    }
    digest.copy_from_slice(&state[..BLOCK]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test suite of RFC 1319.
    #[test]
    fn md2_gives_the_digests_of_its_specification() {
        let digest = |text: &str| u128::from_be_bytes(md2(text.as_bytes()));
        assert_eq!(digest(""), 0x8350e5a3e24c153df2275c9f80692773);
        assert_eq!(digest("a"), 0x32ec01ec4a6dac72c0ab96fb34c0b5d1);
        assert_eq!(digest("abc"), 0xda853b0d3f88d99b30283a69e6ded6bb);
        assert_eq!(digest("message digest"), 0xab4f496bfb2a530b219ff33031fe06b0);
        assert_eq!(digest("abcdefghijklmnopqrstuvwxyz"), 0x4e8ddff3650292ab5a4108c3aa47940b);
        let digits = "1234567890".repeat(8);
        assert_eq!(digest(&digits), 0xd5976f79d83d3a0dc9806c3c66f3efd8);
    }

    fn input(runtime: u32) -> Input {
        Input {
            driver: 13_000,
            runtime,
            process: 1,
            thread: 2,
            tables: [3, 4],
            function: 5,
            seconds: 6,
            devices: vec![Identity { uuid: [7; 16], pci: [8, 9, 10] }],
        }
    }

    #[test]
    fn message_has_every_number_in_order() {
        let message = input(13_002).message();
        assert_eq!(message.len(), 4 * 4 + 4 * 8 + 16 + 3 * 4);
        let word = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().unwrap());
        assert_eq!([0, 4, 8, 12].map(word), [13_000, 13_002, 1, 2]);
        assert_eq!([16, 24, 32, 40].map(word), [3, 4, 5, 6]);
        assert_eq!(&message[48..64], [7; 16]);
        assert_eq!([64, 68, 72].map(word), [8, 9, 10]);
    }

    #[test]
    fn the_last_digit_of_the_version_chooses_the_code() {
        let codes = [13_000, 12_080, 13_001, 13_002, 13_003].map(|version| code(&input(version)));
        assert_eq!(codes[0], codes[1]);
        assert_eq!(codes[0][8..], codes[2][8..]);
        assert_ne!(codes[0], codes[2]);
        assert_ne!(codes[3], codes[4]);
        let other = Input { seconds: 7, ..input(13_002) };
        assert_ne!(codes[3], code(&other));
    }
}
