package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"berth/api"
	form "berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/base/flock"
	"berth/internal/base/savefile"
	"berth/internal/cli/kit"
)

// save is "operator backup save": first what the servers know, then what the node remembers, then the volumes. So a
// volume that the saved state knows is in the backup, or named as missing.
type save struct {
	env     *kit.Env
	dirs    DataDirs
	wait    time.Duration
	formats kit.Formats

	dataDir string
	sources *form.Sources
	out     *form.Writer
}

func newSave(e *kit.Env, dirs DataDirs) *kit.Command {
	s := &save{env: e, dirs: dirs}
	cmd := &kit.Command{
		Use:   "save [flags] <directory>",
		Short: "Save the servers' state, the key, the node's store and the volumes of this machine",
		Long: `Saves what a machine needs to come back after its disk is lost, while its tasks run: the servers' state
and the key of its secrets, what the node remembers, and the volumes and snapshots of the bundled storage plugin, each
as of one moment. Run it on the machine of the agent, as the agent's user. The directory must not exist; it appears when
all is on disk. Who can read it can be the node and open all secrets.

Volumes of other plugins are not in it: it names each one. So are the directories of allocations, with their logs.

Exits with 0 if everything is in it, with 2 if a volume of the bundled plugin is not, and with 1 if nothing was saved.`,
		Example: "  berth operator backup save /mnt/backup/monday",
		Run:     func(ctx context.Context, args []string) error { return s.do(ctx, args[0]) },
	}
	cmd.Flags().DurationVar(&s.wait, "wait", 2*time.Minute, "how long to wait for the snapshot of one volume "+
		"(a `duration`)")
	return s.formats.AddTo(cmd)
}

func (s *save) do(ctx context.Context, dest string) (err error) {
	agent, err := s.env.Client().Cluster().Self(ctx)
	if err != nil {
		return kit.Doing(err, "ask", "the agent", "")
	}
	s.dataDir, _ = agent.Config["DataDir"].(string) // one that says none is refused for it
	if s.sources, err = s.dirs.Sources(s.dataDir); err != nil {
		return err
	}
	if node := agent.Stats["client"]["node_id"]; node != s.sources.NodeID {
		return kit.Fail(fault.Conflict, "run the command on the machine of the agent",
			"the agent is that of node %q, and %s on this machine that of node %q", node, s.dataDir, s.sources.NodeID)
	}
	if form.Beneath(dest, s.dataDir) {
		return kit.Fail(fault.Invalid, "choose a place on another disk",
			"%s lies beneath %s, and would be lost with it", dest, s.dataDir)
	}
	alone, err := s.alone()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flock.Release(alone)) }()
	volumes, err := s.registered(ctx)
	if err != nil {
		return err
	}
	if s.out, err = form.Begin(dest, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.out.Close()) }()
	if s.out.Replaced {
		s.env.Err.Notice("Removed what an interrupted backup had left beside " + kit.Clean(dest))
	}
	if err := s.out.Fits(s.takes(volumes)); err != nil {
		return err
	}
	show := &meter{env: s.env, what: "Copying"}
	s.out.Progress = show.read
	m := &s.out.Manifest
	m.Program = cmp.Or(agent.Stats["berth"]["version"], s.env.Version)
	m.NodeID, m.DataDir = s.sources.NodeID, s.dataDir
	err = s.all(ctx)
	show.end()
	if err != nil {
		return err
	}
	err = s.formats.Show(s.env.Out, m, nil, func() {
		s.env.Out.Printf("Saved to %s\n", kit.Clean(dest))
		summary(s.env, m)
	})
	if err == nil && m.Incomplete() {
		return &kit.Exit{Code: exitMissing}
	}
	return err
}

// alone makes sure that no other backup of the data directory runs: it would take our snapshots for leftovers.
func (s *save) alone() (*os.File, error) {
	f, err := os.Open(s.dataDir)
	if err != nil {
		return nil, kit.Doing(err, "read", "data_dir", s.dataDir)
	}
	err = flock.Try(f, syscall.LOCK_EX)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = kit.Fail(fault.Busy, "wait for it to end", "another backup of %s is being written", s.dataDir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// spare is what files take beside what they hold, in bytes.
const spare = 4 << 20

// takes is about how much room the backup takes.
func (s *save) takes(volumes []*api.CSIVolumeListStub) int64 {
	n := int64(spare)
	for _, one := range s.sources.Images {
		n += one.Takes
	}
	if st, err := os.Stat(filepath.Join(s.dataDir, s.sources.Store)); err == nil {
		n += st.Size()
	}
	return n + int64(len(volumes))*4096
}

func (s *save) all(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.state, s.files, s.store, s.volumes, s.snapshots} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.out.Finish()
}

// state saves what the servers know.
func (s *save) state(ctx context.Context) error {
	file, digest, err := s.env.Client().Operator().SaveSnapshot(ctx)
	if err != nil {
		return kit.Doing(err, "save", "the servers' state", "")
	}
	data, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return kit.Doing(err, "save", "the servers' state", "")
	}
	sum := sha256.Sum256(data)
	if want := "sha-256=" + base64.StdEncoding.EncodeToString(sum[:]); digest != want {
		return kit.Fail(fault.Unavailable, "try again", "the servers' state was damaged on its way: its digest is %s",
			digest)
	}
	meta, _, err := savefile.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	m := &s.out.Manifest
	m.ClusterID, m.Incarnation = meta.ClusterID, meta.Incarnation
	m.Index, m.Schema = meta.Index, meta.Schema
	return s.out.Add(form.StateFile, bytes.NewReader(data))
}

// files saves the small files.
func (s *save) files(context.Context) error {
	for _, f := range s.sources.Files {
		if err := s.out.AddFile(inData(f), filepath.Join(s.dataDir, f)); err != nil {
			return err
		}
	}
	key := false
	for _, f := range s.sources.Files {
		key = key || strings.HasSuffix(f, "/root.key")
	}
	if !key {
		s.gap("the key of the servers' secrets, which is not on this machine: keep a copy of server/keyring/root.key " +
			"of a server")
	}
	s.gap("the directories of allocations, with their logs and ephemeral disks: tasks begin with empty ones")
	return nil
}

// inData is where a path beneath the data directory lies in a backup.
func inData(file string) string { return path.Join(form.DataDir, filepath.ToSlash(file)) }

func (s *save) gap(text string) { s.out.Manifest.Gaps = append(s.out.Manifest.Gaps, text) }

// store saves what the node remembers, where there is one beside the server.
func (s *save) store(ctx context.Context) error {
	if s.sources.NodeID == "" {
		return nil
	}
	copied, err := s.env.Client().Operator().NodeStore(ctx)
	if err != nil {
		return kit.Doing(err, "save", "the node's store", "")
	}
	return errors.Join(s.out.Add(inData(s.sources.Store), copied), copied.Close())
}
