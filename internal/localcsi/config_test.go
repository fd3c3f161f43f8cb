package localcsi

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/request"
	"berth/internal/testkit/reference"
)

// TestAConfigurationIsRefusedByName: what cannot be served is refused before anything is opened, and says what to set.
func TestAConfigurationIsRefusedByName(t *testing.T) {
	for want, tune := range map[string]func(*Config){
		"":                        func(*Config) {},
		"set --endpoint":          func(c *Config) { c.Endpoint = "" },
		"give --data-dir":         func(c *Config) { c.DataDir = "volumes" },
		"set --node-id":           func(c *Config) { c.NodeID = "" },
		"attach limit -1":         func(c *Config) { c.AttachLimit = -1 },
		`capacity "ten"`:          func(c *Config) { c.Capacity = "ten" },
		"freeze limit -1s":        func(c *Config) { c.FreezeLimit = -time.Second },
		"above 0 and at most 1m0": func(c *Config) { c.FreezeLimit = time.Hour },
	} {
		c := Config{Endpoint: "unix:///run/x/csi.sock", DataDir: "/var/lib/x", NodeID: testNode}
		t.Setenv("CSI_ENDPOINT", "")
		tune(&c)
		got, err := c.prepare()
		switch {
		case want == "" && (err != nil || got.FreezeLimit != DefaultFreezeLimit):
			t.Errorf("without options: %s, %v", got.FreezeLimit, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v: it does not say %q", err, want)
		}
	}
}

// TestThePageHasTheParameters: given what CreateVolume takes of parameters and sizes, then the page of volumes has it.
func TestThePageHasTheParameters(t *testing.T) {
	text := reference.Open(t, "reference/storage.md").Section("The bundled plugin").Text
	for _, part := range []string{
		"`" + request.ParamFS + "`", "`" + image.Ext4 + "`", "`" + image.XFS + "`",
		strconv.Itoa(request.Granularity) + " bytes", sizes.Human(image.MinExt4), sizes.Human(image.MinXFS),
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not say %q", part)
		}
	}
}
