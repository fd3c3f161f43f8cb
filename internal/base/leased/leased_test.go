package leased_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/base/bootclock"
	"berth/internal/base/leased"
)

// asHolder in the environment makes the test program one that holds something, and runs a program meanwhile.
const asHolder = "BERTH_TEST_HOLDER"

func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == leased.Role:
		os.Exit(leased.Main(context.Background()))
	case os.Getenv(asHolder) != "":
		os.Exit(hold())
	}
	os.Exit(m.Run())
}

// long is a lease that does not end by itself, and no grace.
func long() leased.Terms { return leased.Terms{Until: bootclock.Now() + time.Hour} }

// hold runs a shell for as long as this process is there.
func hold() int {
	_ = os.Setenv("HOLDER", strconv.Itoa(os.Getpid()))
	p, err := leased.Start([]string{"sh", "-c", os.Getenv(asHolder)}, leased.Streams{Out: os.Stdout, Err: os.Stderr},
		long())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	code, err := p.Wait()
	if err != nil {
		fmt.Println("holder:", err)
		return 1
	}
	return code
}

// begin starts a script in the hand of a holder of its own, and returns what reads what it prints: to its end nothing
// that was started runs any more. The first word that is printed has come.
func begin(t *testing.T, script string) (holder *os.Process, keeper int, out *os.File) {
	t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { _ = out.Close() })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asHolder+"="+script)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	if err := out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	keeper, err = strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatalf("it says %q", line[:n])
	}
	return cmd.Process, keeper, out
}

// family is a script whose processes are of three generations, one in a session of its own, and all deaf to SIGTERM. It
// says who its parent is when all of them run.
const family = `trap '' TERM; (trap '' TERM; setsid sh -c "trap '' TERM; sleep 100" & sleep 100) & ` +
	`echo $PPID; sleep 100`

func ended(t *testing.T, out *os.File) string {
	t.Helper()
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatalf("something still runs: %v", err)
	}
	return string(rest)
}

// Given a program that has started others, when whoever started it is killed, then none of them runs any more.
func TestAProgramEndsWithItsHolder(t *testing.T) {
	holder, _, out := begin(t, family)
	if err := holder.Kill(); err != nil {
		t.Fatal(err)
	}
	ended(t, out)
}

// Given such a program, when the child between the two is killed, then none of them runs any more either, and the
// holder hears of it.
func TestAProgramEndsWithItsKeeper(t *testing.T) {
	_, keeper, out := begin(t, family)
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if said := ended(t, out); !strings.Contains(said, "was killed, and the program with it") {
		t.Errorf("the holder says %q", said)
	}
}

// Given a holder that stands still, then its program ends when the time has passed that it was given last; one whose
// time was extended has run longer.
func TestAProgramEndsWithItsTime(t *testing.T) {
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	const script = "trap 'echo told; exit 7' TERM; echo begun; while :; do sleep 0.01; done"
	p, err := leased.Start([]string{"sh", "-c", script},
		leased.Streams{Out: w, Err: w}, leased.Terms{Until: bootclock.Now() + time.Hour, Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := p.Extend(bootclock.Now()); err != nil {
		t.Fatal(err)
	}
	if said := ended(t, out); said != "told\n" {
		t.Errorf("it says %q", said)
	}
	if code, err := p.Wait(); code != 7 || err != nil {
		t.Errorf("it ends with %d, %v", code, err)
	}
}

// Given a program that ends and leaves others behind, then those are ended, and the code is the program's.
func TestNothingOutlivesItsProgram(t *testing.T) {
	_, _, out := begin(t, family[:strings.LastIndex(family, ";")]+"; exit 3")
	ended(t, out)
}

// Given a program, then its exit code comes through, also that of one that a signal ends, or that cannot be started.
func TestHowAProgramEnds(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -9 $$": 128 + 9} {
		p, err := leased.Start([]string{"sh", "-c", script}, leased.Streams{}, long())
		if err != nil {
			t.Fatal(err)
		}
		if code, err := p.Wait(); code != want || err != nil {
			t.Errorf("%s: %d, %v", script, code, err)
		}
	}
	for _, c := range []struct {
		name string
		want int
	}{{"/nosuch/program", 127}, {"/etc/passwd", 126}} {
		var said strings.Builder
		p, err := leased.Start([]string{c.name}, leased.Streams{Err: &said}, long())
		if err != nil {
			t.Fatal(err)
		}
		if code, err := p.Wait(); code != c.want || err != nil || !strings.Contains(said.String(), c.name) {
			t.Errorf("%s: %d, %v, %s", c.name, code, err, said.String())
		}
	}
}

// Given a program that is to stop, then it has its grace: what obeys sooner ends sooner.
func TestAProgramIsAskedFirst(t *testing.T) {
	var said strings.Builder
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	const script = "trap 'echo told; exit 0' TERM; echo . >&2; while :; do sleep 0.01; done"
	p, err := leased.Start([]string{"sh", "-c", script},
		leased.Streams{Out: &said, Err: w}, leased.Terms{Until: bootclock.Now() + time.Hour, Grace: time.Hour})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	if code, err := p.Wait(); code != 0 || err != nil || said.String() != "told\n" {
		t.Errorf("%d, %v, %q", code, err, said.String())
	}
}
