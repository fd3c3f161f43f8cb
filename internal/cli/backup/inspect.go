package backup

import (
	"context"

	form "berth/internal/base/backup"
	"berth/internal/base/storecheck"
	"berth/internal/cli/kit"
)

// checked is a backup and what was found in it.
type checked struct {
	*form.Manifest
	Damage []string
}

func newInspect(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "inspect [flags] <directory>",
		Short: "Read a backup from the first byte to the last, and say what is in it and what is damaged",
		Long: `Holds every file of a backup against its checksum, and changes nothing; it asks no agent. Exits with 0 if
everything is whole, with 2 if something is damaged, and with 1 if the directory is no backup.`,
		Example: "  berth operator backup inspect /mnt/backup/monday",
		Local:   true,
		Run: func(ctx context.Context, args []string) error {
			show := &meter{env: e, what: "Reading"}
			m, damaged, err := form.Verify(ctx, args[0], show.read)
			show.end()
			found := checked{m, storecheck.Texts(damaged...)}
			if err := formats.Show(e.Out, found, err, func() { showChecked(e, found) }); err != nil {
				return err
			}
			if len(damaged) > 0 {
				return &kit.Exit{Code: exitMissing}
			}
			return nil
		},
	}
	return formats.AddTo(cmd)
}

func showChecked(e *kit.Env, found checked) {
	summary(e, found.Manifest)
	for _, text := range found.Damage {
		e.Out.Printf("\nDamaged: %s\n", kit.Clean(text))
	}
	if len(found.Damage) == 0 {
		e.Out.Printf("\nEvery file is as it was written.\n")
	}
}
