package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
)

// The words that must be nowhere but in the plugin's ear.
const (
	volumeSecret = "sesame-of-the-volume"
	tokenSecret  = "11111111-2222-3333-4444-sesametoken0"
)

func TestSecretsAreNeitherLoggedNorWrittenInPlain(t *testing.T) {
	needRoot(t)
	data := tempDir(t)
	a := start(t, "-dev", "-data-dir", data, "-log-level", "trace")
	a.until("the bundled plugin is healthy", func(ctx context.Context) error { return pluginHealthy(ctx, a.api) })
	impatient, err := api.NewClient(api.Config{Address: a.api.Config().Address, Token: tokenSecret})
	if err != nil {
		t.Fatal(err)
	}
	vol := &api.CSIVolume{
		ID:                   "vault",
		Name:                 "vault",
		PluginID:             "local-csi",
		Namespace:            "default",
		RequestedCapacityMin: 32 << 20,
		RequestedCapacityMax: 64 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
		}},
		Secrets: api.Secrets{"password": volumeSecret},
	}
	if _, _, err := impatient.Volumes().Create(t.Context(), vol, nil); err != nil {
		t.Fatal(err)
	}
	got, _, err := impatient.Volumes().Get(t.Context(), "vault", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Secrets["password"] == volumeSecret {
		t.Error("the API gives a volume's secret back")
	}
	if err := impatient.Volumes().Delete(t.Context(), "vault", nil, time.Minute, nil); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{volumeSecret, tokenSecret} {
		if strings.Contains(a.logged(), word) {
			t.Errorf("the log at level trace shows %q", word)
		}
	}
	if !strings.Contains(a.logged(), "level=DEBUG") {
		t.Error("the log at level trace has no line below info: this test proves nothing")
	}
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, word := range []string{volumeSecret, tokenSecret} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s holds %q in plain", path, word)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}
