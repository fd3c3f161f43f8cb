package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
