package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/savefile"
	"berth/internal/cli/kit"
)

func newSnapshot(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "snapshot",
		Short: "Save the state of the servers, look at what was saved, and restore it",
	}
	return cmd.Add(newSnapshotSave(e), newSnapshotInspect(e), newSnapshotRestore(e))
}

func newSnapshotSave(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:   "save <file>",
		Short: "Save the state of the servers into a file",
		Long: `Saves jobs, allocations, volumes and all else that the servers know. Secrets in it are sealed: keep a
copy of root.key of the server's keyring directory, or a recovery key, without which nobody can open them; inspect says
who can. What is on volumes and nodes is not in it.`,
		Example: "  berth operator snapshot save sunday.snap",
		Run: func(ctx context.Context, args []string) error {
			file, digest, err := e.Client().Operator().SaveSnapshot(ctx)
			if err != nil {
				return kit.Doing(err, "save", "the servers' state", "")
			}
			defer file.Close()
			data, err := io.ReadAll(file)
			if err != nil {
				return kit.Doing(err, "save", "the servers' state", "")
			}
			sum := sha256.Sum256(data)
			if want := "sha-256=" + base64.StdEncoding.EncodeToString(sum[:]); digest != want {
				return kit.Fail(fault.Unavailable, "try again", "the file was damaged on its way: its digest is %s",
					digest)
			}
			if _, _, err := savefile.Decode(bytes.NewReader(data)); err != nil {
				return err
			}
			if err := writeWhole(args[0], data); err != nil {
				return kit.Doing(err, "write", "file", args[0])
			}
			e.Out.Printf("Saved the state of the servers to %s\n", kit.Clean(args[0]))
			return nil
		},
	}
}

// writeWhole writes a file that only its owner can read, whole or not at all; once it has returned, the file is there
// also after a power failure.
func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return durable.SyncDir(filepath.Dir(path))
}

func newSnapshotInspect(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "inspect [flags] <file>",
		Short:   "Show what a saved state is of",
		Example: "  berth operator snapshot inspect sunday.snap",
		Local:   true,
		Run: func(_ context.Context, args []string) error {
			m, err := inspect(args[0])
			return formats.Show(e.Out, m, err, func() {
				pairs := kit.Pairs{
					{"Saved", kit.At(m.Time)},
					{"Cluster", m.ClusterID},
					{"Incarnation", m.Incarnation},
					{"Index", strconv.FormatUint(m.Index, 10)},
					{"Schema", strconv.FormatUint(m.Schema, 10)},
					{"Bytes", strconv.Itoa(m.Size)},
					{"Can Open It", strings.Join(m.Holders, ", ")},
				}
				for _, kind := range slices.Sorted(maps.Keys(m.Counts)) {
					pairs = append(pairs, kit.Pairs{{kind, strconv.Itoa(m.Counts[kind])}}...)
				}
				e.Out.Pairs(pairs)
			})
		},
	}
	return formats.AddTo(cmd)
}

func inspect(path string) (*savefile.Meta, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, kit.Doing(err, "read", "file", path)
	}
	defer f.Close()
	m, _, err := savefile.Decode(f)
	return &m, err
}

func newSnapshotRestore(e *kit.Env) *kit.Command {
	var yes kit.Agreement
	var keyFile string
	cmd := &kit.Command{
		Use:   "restore [flags] <file>",
		Short: "Replace the state of the servers by a saved one",
		Long: `Replaces all that the servers know by what was saved. What runs on nodes runs on; what the saved state
does not know is kept as an orphan. A recovery begins: nothing is done with a volume before every node that may hold it
has reported. Follow it with: berth operator recovery status`,
		Example: "  berth operator snapshot restore sunday.snap",
		Run: func(ctx context.Context, args []string) error {
			m, err := inspect(args[0])
			if err != nil {
				return err
			}
			question := "Replace the state of the servers by that of " + kit.At(m.Time) + "?"
			if err := e.Confirm(yes, question, "say that you mean it with -yes"); err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return kit.Doing(err, "read", "file", args[0])
			}
			defer f.Close()
			key, err := recoveryKey(keyFile)
			if err != nil {
				return err
			}
			if err := e.Client().Operator().RestoreSnapshotWith(ctx, f, key); err != nil {
				return kit.Doing(err, "restore", "the servers' state", "")
			}
			e.Out.Printf("Restored the state of %s; follow the recovery with: berth operator recovery status\n",
				kit.At(m.Time))
			return nil
		},
	}
	cmd.Flags().StringVar(&keyFile, "recovery-key-file", "",
		"`file` of a recovery key, for a state whose secrets these servers cannot open")
	yes.AddTo(cmd)
	return cmd
}

func recoveryKey(path string) (api.Credential, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	return api.Credential(bytes.TrimSpace(data)), kit.Doing(err, "read", "file", path)
}
