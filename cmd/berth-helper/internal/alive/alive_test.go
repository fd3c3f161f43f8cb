package alive

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatLivesAndWhatIsMissingIsNotCalledDead: a word is said of a dead file system alone.
func TestWhatLivesAndWhatIsMissingIsNotCalledDead(t *testing.T) {
	for _, path := range []string{t.TempDir(), t.TempDir() + "/missing"} {
		for _, mode := range []string{Read, Write} {
			var said strings.Builder
			if err := Run(&said, []string{path, mode}); err != nil || said.Len() > 0 {
				t.Errorf("%s of %s: %q, %v", mode, path, said.String(), err)
			}
		}
	}
	if err := Run(&strings.Builder{}, []string{t.TempDir(), "nonsense"}); err == nil {
		t.Error("a mode that there is not is taken")
	}
}

// TestWhichErrorsAreDeaths: read-only is death to a writer alone.
func TestWhichErrorsAreDeaths(t *testing.T) {
	for err, want := range map[error][2]bool{ // read, write
		nil:            {false, false},
		unix.EIO:       {true, true},
		unix.ESHUTDOWN: {true, true},
		unix.ENOTCONN:  {true, true},
		unix.ESTALE:    {true, true},
		unix.EROFS:     {false, true},
		unix.EACCES:    {false, false},
		unix.EINVAL:    {false, false},
	} {
		if got := [2]bool{dead(err, false), dead(err, true)}; got != want {
			t.Errorf("%v: %v, not %v", err, got, want)
		}
	}
}
