package localcsi

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/flaghelp"
	"berth/internal/base/volumestore"
	"berth/internal/localcsi/request"
)

const (
	// Name is the plugin's name in the CSI sense.
	Name          = "local.csi.berth"
	maxSocketPath = 107
)

// Config is what the plugin is started with.
type Config struct {
	Endpoint    string // unix:///path/csi.sock; empty: the environment's CSI_ENDPOINT
	DataDir     string // volumes and snapshots live here
	Identity    string // the file outside of DataDir with the copy of its identity; empty: there is none
	NodeID      string // how this node is called in ids and topology; fixed for the life of DataDir
	Attach      bool   // offer ControllerPublishVolume and ControllerUnpublishVolume
	AttachLimit int64  // how many volumes may be attached (without Attach: staged) at once; 0: no limit
	Capacity    string // "10GiB": how much all volumes and snapshots may take; empty: what the file system has
	Version     string // vendor version
	// FreezeLimit is how long writers of a volume in use may be stopped for a copy of it; 0: DefaultFreezeLimit.
	FreezeLimit time.Duration
	Log         *slog.Logger

	capacity int64
	socket   string
	step     func(string) // tests only: called between the steps of a change
}

// DefaultFreezeLimit is what most writers bear without a time-out of their own.
const DefaultFreezeLimit = 5 * time.Second

// maxFreezeLimit is below the 120 s after which the kernel reports a blocked writer as hung.
const maxFreezeLimit = time.Minute

// Flags binds the plugin's command line to c.
func Flags(fs *flag.FlagSet, c *Config) {
	fs.StringVar(&c.Endpoint, "endpoint", "", "`socket` to serve on, as unix:///path/csi.sock (default: $CSI_ENDPOINT)")
	fs.StringVar(&c.DataDir, "data-dir", "",
		"`directory` for volumes and snapshots; best on a file system with reflinks")
	fs.StringVar(&c.NodeID, "node-id", "",
		"`id` of this node in volume ids and topology; cannot change once the data directory is in use")
	fs.StringVar(&c.Identity, "identity-copy", "",
		"`file` outside of the data directory that remembers which one it is: an empty one in its place, as while its "+
			"disk is not mounted, is refused (default: the data directory's name and .identity, if there is such a file)")
	fs.BoolVar(&c.Attach, "attach", false, "offer controller publish and unpublish")
	fs.Int64Var(&c.AttachLimit, "attach-limit", 0, "how `many` volumes this node takes at once (0: no limit)")
	fs.StringVar(&c.Capacity, "capacity", "",
		"`size` that volumes and snapshots may take together, such as 10GiB (default: the file system's free space)")
	fs.DurationVar(&c.FreezeLimit, "freeze-limit", DefaultFreezeLimit,
		"how `long` writers of a volume in use may be stopped while it is copied, where the file system has no reflinks")
}

// Usage is what the plugin says of its command line.
func Usage(fs *flag.FlagSet) {
	// Nobody can be told that a help cannot be written.
	_, _ = fmt.Fprint(fs.Output(), `Usage: berth plugin local-csi [flags]

Serves the bundled CSI plugin: volumes are images in a directory of this node. Agents run it by themselves where
client { local_csi = true } says so; by hand it serves other orchestrators, and tries.

Examples:
  berth plugin local-csi -endpoint unix:///run/csi.sock -data-dir /var/lib/volumes -node-id $(hostname)
`, flaghelp.Text("Flags:", fs, nil))
}

// prepare checks the configuration and fills in what was left out.
func (c Config) prepare() (Config, error) {
	if c.Endpoint == "" {
		c.Endpoint = os.Getenv("CSI_ENDPOINT")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.step == nil {
		c.step = func(string) {}
	}
	if c.Version == "" {
		c.Version = "0"
	}
	var err error
	if c.socket, err = socketPath(c.Endpoint); err != nil {
		return c, err
	}
	if !filepath.IsAbs(c.DataDir) || filepath.Clean(c.DataDir) == "/" {
		return c, fmt.Errorf("data directory %q: give --data-dir an absolute path below /", c.DataDir)
	}
	c.DataDir = filepath.Clean(c.DataDir)
	if beside := volumestore.Copy(c.DataDir); c.Identity == "" {
		if _, err := os.Lstat(beside); err == nil { // started as an earlier version did, or by hand
			c.Identity = beside
		}
	}
	if err := request.NodeID(c.NodeID); err != nil {
		return c, fmt.Errorf("node id %q: %w (set --node-id)", c.NodeID, err)
	}
	if c.AttachLimit < 0 {
		return c, fmt.Errorf("attach limit %d: it must not be negative", c.AttachLimit)
	}
	if c.FreezeLimit == 0 {
		c.FreezeLimit = DefaultFreezeLimit
	}
	if c.FreezeLimit < 0 || c.FreezeLimit > maxFreezeLimit {
		return c, fmt.Errorf("freeze limit %s: it must be above 0 and at most %s", c.FreezeLimit, maxFreezeLimit)
	}
	if c.Capacity != "" {
		if c.capacity, err = parseSize(c.Capacity); err != nil {
			return c, fmt.Errorf("capacity %q: %w", c.Capacity, err)
		}
	}
	return c, nil
}

func socketPath(endpoint string) (string, error) {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if endpoint == "" {
		return "", errors.New("no endpoint: set --endpoint or CSI_ENDPOINT to unix:///path/csi.sock")
	}
	if !ok || !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return "", fmt.Errorf(
			"endpoint %q: it must read unix:// and then a clean absolute path, as in unix:///run/x/csi.sock", endpoint)
	}
	if filepath.Ext(path) != ".sock" {
		return "", fmt.Errorf("endpoint %q: the socket's name must end in .sock", endpoint)
	}
	if n := max(len(path), len(newSocket(path))); n > maxSocketPath {
		return "", fmt.Errorf("endpoint %q: the path takes %d bytes, a socket may have %d", endpoint, n, maxSocketPath)
	}
	return path, nil
}

// newSocket is the name under which the socket is bound before it is renamed.
func newSocket(socket string) string { return filepath.Join(filepath.Dir(socket), ".csi.new") }

var units = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"B", 1}, {"", 1},
}

func parseSize(s string) (int64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n <= 0 || n > math.MaxInt64/u.factor {
			break
		}
		return n * u.factor, nil
	}
	return 0, errors.New("write a positive number with a unit, such as 500MiB, 10GiB or 1TB")
}
