package backup

import (
	"context"
	"path/filepath"

	form "berth/internal/base/backup"
	"berth/internal/cli/kit"
)

func newRestore(e *kit.Env, dirs DataDirs) *kit.Command {
	var dataDir string
	cmd := &kit.Command{
		Use:   "restore [flags] <directory>",
		Short: "Put a backup back into an empty data directory",
		Long: `Reads a backup whole, holds it against its checksums, and puts it back into a data directory that is
empty and that no agent uses. A directory that it did not get to the end with is refused by agents; the same command
again finishes it. The agent gives the saved state to its servers at its first start, before its node starts, and a
recovery begins.`,
		Example: "  berth operator backup restore -data-dir /var/lib/berth /mnt/backup/monday",
		Local:   true,
		Run: func(ctx context.Context, args []string) error {
			if dataDir == "" {
				return kit.Usage("-data-dir is missing")
			}
			from, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			into, err := filepath.Abs(dataDir)
			if err != nil {
				return err
			}
			show := &meter{env: e, what: "Reading"}
			m, err := dirs.Restore(ctx, from, into, show.read)
			show.end()
			if err != nil {
				return err
			}
			restored(e, m, into)
			return nil
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "the `directory` that the agent will use")
	return cmd
}

func restored(e *kit.Env, m *form.Manifest, into string) {
	e.Out.Printf("Put the backup of %s back into %s\n", kit.At(m.Begun), kit.Clean(into))
	if into != m.DataDir {
		e.Out.Printf("It was saved from %s: the agent makes its records follow the move.\n", kit.Clean(m.DataDir))
	}
	e.Out.Printf(`
Now start the agent. Its servers take up the saved state, and a recovery begins; where no node is missing, end it:
  berth operator recovery finish
`)
}
