package cli_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Given a file that holds no text, when it is to be a value of a variable, then that is refused with the way out:
// values are text, and other bytes would become other ones.
func TestAValueThatIsNoTextIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.bin")
	if err := os.WriteFile(file, []byte{0xff, 0xfe, 0x80}, 0o600); err != nil {
		t.Fatal(err)
	}
	got := inMemory(t.Context(), "var", "put", "app/key", "key=@"+file)
	if got.code == 0 || !strings.Contains(got.stderr, "holds no text in UTF-8") ||
		!strings.Contains(got.stderr, "base64") {
		t.Errorf("it ends with %d: %s", got.code, got.stderr)
	}
}

// Given a program that runs while a lock is held, when the command that holds it is killed, then neither the program
// nor what it has started runs any more.
func TestNothingRunsWithoutItsLock(t *testing.T) {
	_, address := serve(t)
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/exe", "var", "lock", "app/one", "sh", "-c",
		"setsid sleep 100 & echo begun; sleep 100; sleep 100")
	cmd.Env = append(os.Environ(), asBerth+"="+address)
	cmd.Stdout, cmd.Stderr = w, w
	if err := errors.Join(cmd.Start(), w.Close(), out.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // that it was killed
	if said, err := io.ReadAll(out); err != nil {
		t.Errorf("something runs on: %v; it said %q", err, said)
	}
}

// Given a lock that the servers have taken, then its program is told to end, and the command says why it was.
func TestALockThatWasTakenEndsItsProgram(t *testing.T) {
	f, address := serve(t)
	got := run(t.Context(), address, "", "var", "lock", "-ttl", "3s", "app/taken", "sh", "-c",
		"trap 'echo told; exit' TERM; while :; do sleep 0.01; done")
	if got.code != 1 || got.stdout != "told\n" || !strings.Contains(got.stderr, "the servers have taken it") {
		t.Errorf("it ends with %+v", got)
	}
	if f.asked("PUT /v1/var/app/taken?lock-release=true&namespace=default") {
		t.Error("a lock that was lost was released")
	}
}

// Given a file that names an item twice, in either form, then it is refused: the last one would count, and nobody would
// hear of the other.
func TestAFileThatNamesAnItemTwiceIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"path = \"a\"\nitems = {\n  k = \"v\"\n  \"k\" = \"w\"\n}\n": `"k" is there already`,
		`{"Path":"a","Items":{"k":"v","k":"w"}}`:                     `duplicate object member name "k"`,
		"path = \"a\"\nitems = {\n  k = \"v\"\n  l = \"w\"\n}\n":     "",
		`{"Path":"a","Items":{"k":"v","l":"w"}}`:                     "",
	} {
		file := filepath.Join(t.TempDir(), "spec")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := inMemory(t.Context(), "var", "put", "@"+file)
		if says == "" && got.code != 0 || says != "" && (got.code != 1 || !strings.Contains(got.stderr, says)) {
			t.Errorf("%s: it ends with %d: %s", text, got.code, got.stderr)
		}
	}
}
