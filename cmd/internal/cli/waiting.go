package cli

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/weir-dev/weir/internal/terminal"
)

// noticeAfter is the time after which a user must see what a command waits for.
const noticeAfter = time.Second

// Waiting reports on a terminal what the command waits for, if it takes long. done ends the waiting.
func Waiting(notes io.Writer, what string) (done func()) {
	file, isFile := terminal.Raw(notes).(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	return notice(notes, what)
}

func notice(notes io.Writer, what string) (done func()) {
	timer := time.AfterFunc(noticeAfter, func() { terminal.Printf(notes, "waiting for %s …\n", what) })
	return func() { timer.Stop() }
}
