package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

func logRotation(b *bench) {
	cfg := b.config(`i=0; while test $i -lt 1000; do echo "line $i of the log"; i=$((i+1)); done`)
	cfg.Logs.MaxFiles, cfg.Logs.MaxBytes = 3, 4000
	if exit := b.wait(b.start(cfg)); !exit.Successful() {
		b.Fatalf("exit %+v", exit)
	}
	b.settle(cfg)
	files, err := filepath.Glob(filepath.Join(cfg.Logs.Dir, "web.stdout.*"))
	if err != nil || len(files) != 3 {
		b.Fatalf("files %v, %v", files, err)
	}
	highest := 0
	for _, f := range files {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(f), "."))
		if err != nil {
			b.Fatal(err)
		}
		highest = max(highest, n)
		content, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		if len(content) > 4000 || !bytes.HasPrefix(content, []byte("line ")) ||
			!bytes.HasSuffix(content, []byte("of the log\n")) {
			b.Errorf("%s has %d bytes and begins %.20q", f, len(content), content)
		}
	}
	last, err := os.ReadFile(filepath.Join(cfg.Logs.Dir, fmt.Sprintf("web.stdout.%d", highest)))
	if err != nil || !bytes.HasSuffix(last, []byte("line 999 of the log\n")) {
		b.Errorf("the last file ends with %.40q, %v", last[max(0, len(last)-40):], err)
	}
}

func logsContinue(b *bench) {
	cfg := b.config(`echo first`)
	task := b.start(cfg)
	b.wait(task)
	b.stop(task)
	cfg = b.config(`echo second`)
	cfg.Attempt = 2
	b.wait(b.start(cfg))
	if out := b.output(cfg, "stdout"); out != "first\nsecond\n" {
		b.Errorf("output %q", out)
	}
}

func execPipes(b *bench) {
	cfg := b.config(`export INNER=1; exec sleep 1000`)
	task := b.start(cfg)
	var out, errs bytes.Buffer
	big := strings.Repeat("0123456789abcdef", 20000)
	exit, err := task.Exec(b.context(),
		driver.ExecRequest{Command: []string{"sh", "-c", `echo "$GREETING" >&2; cat; exit 3`},
			Stdin: strings.NewReader(big), Stdout: &out, Stderr: &errs})
	if err != nil || exit.ExitCode != 3 {
		b.Fatalf("exit %+v, %v", exit, err)
	}
	if out.String() != big || errs.String() != "hello\n" {
		b.Errorf("stdout has %d bytes of %d, stderr is %q", out.Len(), len(big), errs.String())
	}
	exit, err = task.Exec(b.context(), driver.ExecRequest{Command: []string{"sh", "-c", `kill -9 $$`}})
	if err != nil || exit.Signal != 9 {
		b.Errorf("a killed command: %+v, %v", exit, err)
	}
	// An input that never ends must not hold back the exit.
	r, w := io.Pipe()
	defer w.Close()
	if exit, err := task.Exec(b.context(), driver.ExecRequest{Command: []string{"true"}, Stdin: r}); err != nil ||
		!exit.Successful() {
		b.Errorf("exit %+v, %v", exit, err)
	}
	b.wait2(task, "the main process does not notice", true)
}

// wait2 says whether the main process still runs.
func (b *bench) wait2(task driver.Task, what string, runs bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond) // runs out beside a living process
	defer cancel()
	_, err := task.Wait(ctx)
	if still := fault.Has(err, fault.Timeout); still != runs {
		b.Errorf("%s: wait says %v", what, err)
	}
}

// lockedBuffer is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func execTerminal(b *bench) {
	task := b.start(b.config(`exec sleep 1000`))
	var out lockedBuffer
	sizes := make(chan driver.WindowSize, 1)
	sizes <- driver.WindowSize{Height: 31, Width: 97}
	r, w := io.Pipe()
	first := ""
	if b.h.SizeLags {
		first = "sleep 1; "
	}
	var exit driver.ExitResult
	join := b.beside(func() {
		var err error
		exit, err = task.Exec(b.context(), driver.ExecRequest{
			Command: []string{"sh", "-c", first +
				`test -t 0 && tty && stty size; read x; stty size; echo "got $x"; exit 8`},
			TTY:    true,
			Stdin:  r,
			Stdout: &out,
			Resize: sizes,
		})
		if err != nil {
			b.Errorf("exec: %v", err)
		}
	})
	b.eventually("the first size is seen", func() bool { return strings.Contains(out.String(), "31 97") })
	sizes <- driver.WindowSize{Height: 40, Width: 120}
	time.Sleep(100 * time.Millisecond)
	if _, err := io.WriteString(w, "word\n"); err != nil {
		b.Fatal(err)
	}
	join()
	if exit.ExitCode != 8 {
		b.Errorf("exit %+v", exit)
	}
	for _, want := range []string{"/dev/pts/", "40 120", "got word"} {
		if !strings.Contains(out.String(), want) {
			b.Errorf("no %q in %q", want, out.String())
		}
	}
}

func execGivenUp(b *bench) {
	m := mark()
	task := b.start(b.config(`exec sleep 1000`))
	ctx, cancel := context.WithCancel(b.context())
	var err error
	var ended atomic.Bool
	join := b.beside(func() {
		defer ended.Store(true)
		// One in the background, one below a process with a group of its own, and one in a session of its own.
		_, err = task.Exec(ctx, driver.ExecRequest{Command: []string{"sh", "-c",
			"sleep " + m + " & timeout 1000 sleep " + m + " & setsid sleep " + m + " & sleep " + m}})
	})
	b.eventually("the command runs", func() bool { return len(running(b, "sleep", m)) == 5 })
	cancel()
	b.eventually("the call ends", ended.Load)
	join()
	if !fault.Has(err, fault.Canceled) {
		b.Errorf("exec: %v", err)
	}
	b.eventually("the command was killed", func() bool { return len(running(b, "sleep", m)) == 0 })
}

// execUnrunnable: a command that cannot run is answered as a shell answers, with a sentence and 126 or 127; and the
// next one runs.
func execUnrunnable(b *bench) {
	cfg := b.config(`exec sleep 1000`)
	task := b.start(cfg)
	var made bytes.Buffer
	exit, err := task.Exec(b.context(), driver.ExecRequest{
		Command: []string{"sh", "-c", `{ cd /local || cd "$0"; } 2>/dev/null && echo 'exit 0' >plain &&
			printf '#!/no/such/interpreter\n' >orphan && chmod +x orphan && printf %s "$PWD"`,
			filepath.Join(cfg.TaskDir, "local")},
		Stdout: &made,
	})
	if err != nil || !exit.Successful() {
		b.Fatalf("files to run: %+v, %v", exit, err)
	}
	dir := made.String()
	for _, c := range []struct {
		command string
		code    int
		says    string
	}{
		{"no-such-command", 127, `command "no-such-command": not found in `},
		{"/no/such/command", 127, `command "/no/such/command": not found in `},
		{dir + "/plain", 126, `/plain": is not executable in `},
		{dir, 126, `": is a directory in `},
		{dir + "/orphan", 126, "its interpreter or loader does not exist"},
	} {
		for _, tty := range []bool{false, true} {
			var out, errs bytes.Buffer
			exit, err := task.Exec(b.context(),
				driver.ExecRequest{Command: []string{c.command}, TTY: tty, Stdout: &out, Stderr: &errs})
			if err != nil || exit.ExitCode != c.code || exit.Signal != 0 {
				b.Errorf("%s: exit %+v, %v, want %d", c.command, exit, err, c.code)
			}
			said, quiet := errs.String(), out.String()
			if tty {
				said, quiet = quiet, said
			}
			if !strings.HasPrefix(said, "berth: command ") || !strings.Contains(said, c.says) || quiet != "" {
				b.Errorf("%s (terminal %v): says %q and %q", c.command, tty, said, quiet)
			}
		}
	}
	if exit, err := task.Exec(b.context(), driver.ExecRequest{Command: []string{"true"}}); err != nil ||
		!exit.Successful() {
		b.Errorf("a command after those: %+v, %v", exit, err)
	}
	if _, err := task.Exec(b.context(), driver.ExecRequest{}); !fault.Has(err, fault.Invalid) {
		b.Errorf("exec of nothing: %v", err)
	}
}
