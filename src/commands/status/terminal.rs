//! A full-screen terminal that is redrawn repeatedly and reads keys.

use std::io::{self, Stdin, Stdout, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Enter and leave the alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const TO_THE_TOP: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// The key that quits.
const QUIT: u8 = b'q';

/// The terminal of standard input and output. Dropping it restores the previous state.
pub struct Terminal {
    input: Stdin,
    output: Stdout,
    before: Termios,
}

impl Terminal {
    /// Takes over the terminal: keys are not echoed and arrive at once.
    pub fn enter() -> io::Result<Terminal> {
        let (input, mut output) = (io::stdin(), io::stdout());
        let before = tcgetattr(&input)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&input, OptionalActions::Now, &modes)?;
        output.write_all(ENTER.as_bytes())?;
        Ok(Terminal { input, output, before })
    }

    /// Replaces the shown text, cut to the size of the terminal.
    pub fn show(&mut self, text: &str) -> io::Result<()> {
        let size = tcgetwinsize(&self.output).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
        self.output.write_all(frame(text, rows, columns).as_bytes())?;
        self.output.flush()
    }

    /// Waits for a key, for at most `time`, or for a signal. Returns whether the user quits.
    pub fn wait(&mut self, time: Duration) -> io::Result<bool> {
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        let mut inputs = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut inputs, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            result => result?,
        };
        let mut keys = [0; 64];
        match rustix::io::read(&self.input, &mut keys) {
            // Without any byte the terminal is gone.
            Ok(count) => Ok(count == 0 || keys[..count].contains(&QUIT)),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal is gone, neither is needed.
        let _ = self.output.write_all(LEAVE.as_bytes()).and_then(|()| self.output.flush());
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.before);
    }
}

/// Returns the text that draws over the previous one.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let cut = |line: &str| line.chars().take(columns).collect::<String>() + CLEAR_REST_OF_LINE;
    let lines: Vec<String> = text.lines().take(rows).map(cut).collect();
    // The last line has no line end, which would scroll the others up.
    TO_THE_TOP.to_owned() + &lines.join("\r\n") + CLEAR_BELOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_the_screen_and_clears_the_previous_one() {
        let frame = frame("abcdef\ngh\nij\n", 2, 4);
        assert_eq!(frame, "\x1b[Habcd\x1b[K\r\ngh\x1b[K\x1b[J");
    }
}
