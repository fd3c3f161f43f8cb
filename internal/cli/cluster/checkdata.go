package cluster

import (
	"context"

	"berth/internal/base/storecheck"
	"berth/internal/cli/backup"
	"berth/internal/cli/kit"
)

// DataDirs knows the data directories of agents.
type DataDirs interface {
	backup.DataDirs
	// Check reads every store of one that no agent uses.
	Check(dir string) (*storecheck.Report, error)
	// ForgetVolumes gives up the volumes of one that no agent uses and whose store of volumes a start would refuse.
	// agree is asked before anything is changed: why it is refused, and which volumes of its node the servers know.
	ForgetVolumes(dir string, agree func(refused error, known []string) error) error
}

// exitDamaged is the exit code of a check that found damage.
const exitDamaged = 2

func newCheckData(e *kit.Env, dirs DataDirs) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "check-data [flags] <directory>",
		Short: "Read every store of an agent's data directory, and say what is damaged",
		Long: `Judges the directory as the start of an agent does: links, rights and owners in it, and whether a backup
was put back into it in part only. Where a start would refuse it, the reason and the way out are the start's, and
nothing in it is opened; so run it as the agent's user. Then it reads the servers' log and key, the node's store and the
records of the bundled storage plugin, from the first byte to the last, makes the servers' state anew from them as a
start does, opens what is sealed in it, and changes nothing. The agent must not run; what it started may. Exits with 0
if everything is whole, with 2 if something is damaged or a start would refuse the directory, and with 1 if it cannot be
read.`,
		Example: "  berth operator check-data /var/lib/berth",
		Local:   true,
		Run: func(_ context.Context, args []string) error {
			r, err := dirs.Check(args[0])
			if err := formats.Show(e.Out, r, err, func() { showReport(e, r) }); err != nil {
				return err
			}
			if !r.Whole {
				return &kit.Exit{Code: exitDamaged}
			}
			return nil
		},
	}
	return formats.AddTo(cmd)
}

func showReport(e *kit.Env, r *storecheck.Report) {
	kit.List(e.Out, r.Stores, "stores", []string{"Store", "State", "Holds", "Path"}, func(s storecheck.Store) []string {
		state := "whole"
		switch {
		case len(s.Damage) > 0:
			state = "damaged"
		case s.Holds == "":
			state = "not there"
		case len(s.Warnings) > 0:
			state = "usable"
		}
		return []string{s.Name, state, s.Holds, s.Path}
	})
	for _, s := range r.Stores {
		for _, text := range s.Damage {
			e.Out.Printf("\nDamaged: %s\n", kit.Clean(text))
		}
		for _, text := range s.Warnings {
			e.Out.Printf("\nWarning: %s\n", kit.Clean(text))
		}
	}
}
