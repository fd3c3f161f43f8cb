package cli_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/savefile"
	"berth/internal/testkit/powerloss"
)

// sender is an agent that sends a file as the saved state of its servers, with the digest of another one, perhaps.
func sender(t *testing.T, file, digestOf []byte) (address string) {
	t.Helper()
	sum := sha256.Sum256(digestOf)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(sum[:]))
		_, _ = w.Write(file)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// savedState is one that commands can read; what differs makes it another.
func savedState(t *testing.T, state string) []byte {
	t.Helper()
	file, err := savefile.Encode(savefile.Meta{ClusterID: "c1", Index: 7}, []byte(state))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Given a state that was damaged on its way, which its own checksums need not show, as where it is another one, when it
// is saved, then it is refused by its digest, and there is no file; nor is there one of something that is no state.
func TestAStateThatWasDamagedOnItsWayIsNotSaved(t *testing.T) {
	one, other := savedState(t, "state"), savedState(t, "stale")
	for name, c := range map[string]struct {
		file, digestOf []byte
		says           string
	}{
		"another state": {other, one, "damaged on its way"},
		"no state":      {[]byte("state"), []byte("state"), "it is no saved state"},
	} {
		dir := t.TempDir()
		got := run(t.Context(), sender(t, c.file, c.digestOf), "", "operator", "snapshot", "save",
			filepath.Join(dir, "sunday.snap"))
		left, err := os.ReadDir(dir)
		if got.code != 1 || !strings.Contains(got.stderr, c.says) || err != nil || len(left) > 0 {
			t.Errorf("%s: %+v; left: %v, %v", name, got, left, err)
		}
	}
}

// Given a state that is saved, when the power fails at any moment, then under its name there is nothing, or all of it;
// and once the command has said so, all of it, for its owner alone.
func TestASavedStateSurvivesAPowerLoss(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{})
	state := make([]byte, 50_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(state) // what cannot be compressed; it never fails
	file := savedState(t, string(state))
	got := run(t.Context(), sender(t, file, file), "", "operator", "snapshot", "save",
		filepath.Join(d.Dir, "sunday.snap"))
	if got.code != 0 || !strings.Contains(got.stdout, "Saved the state") {
		t.Fatalf("%+v", got)
	}
	d.Ack()
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		path := filepath.Join(dir, "sunday.snap")
		data, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && c.Acked == 0:
			return
		case err != nil || !bytes.Equal(data, file):
			t.Fatalf("%d bytes of %d: %v", len(data), len(file), err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("its mode: %v, %v", st, err)
		}
	})
}
