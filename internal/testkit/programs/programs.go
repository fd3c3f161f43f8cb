// Package programs owns what becomes of a test where the machine lacks what it needs: nothing that is installed for the
// tests may be missing where all of them are to run. Tests import it.
package programs

import (
	"os"
	"os/exec"
	"testing"
)

// Missing skips a test for a reason, and fails it in CI: there a test that was not run would be taken for one that
// passed.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Need ends a test, as Missing does, where a program is neither in the PATH nor at its path. debian is the package that
// has it.
func Need(t testing.TB, debian string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Missing(t, "there is no "+name+": scripts/install-debian.sh "+debian)
		}
	}
}
