package cluster

import (
	"context"
	"path/filepath"

	"berth/internal/cli/kit"
)

func newForgetVolumes(e *kit.Env, dirs DataDirs) *kit.Command {
	var yes kit.Agreement
	cmd := &kit.Command{
		Use:   "forget-volumes [flags] <directory>",
		Short: "Give up the volumes of a node's bundled storage plugin, when their disk is lost",
		Long: `Where the volumes of a node are on a disk that is not mounted, its bundled storage plugin serves none,
and begins no other store in their place. When the disk is lost for good, this gives them up: what is at their place,
which is nothing as a rule, begins to be the node's store at the next start of the agent. It is refused
while the agent runs, and where no start would refuse the directory; it says which volumes are given up, and
changes nothing but volumes.identity in the data directory. The servers know the volumes as before, until each
is deleted.`,
		Example: "  berth operator forget-volumes /var/lib/berth",
		Local:   true,
		Run: func(_ context.Context, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			var lost []string
			err = dirs.ForgetVolumes(dir, func(refused error, known []string) error {
				lost = known
				e.Err.Notice(kit.Clean(refused.Error()))
				e.Err.Notice("The servers know " + kit.Count(len(known), "volume", "volumes") + " of this node.")
				for _, v := range known {
					e.Err.Printf("  %s\n", kit.Clean(v))
				}
				return e.Confirm(yes, "Is what they hold lost for good?", "give -yes")
			})
			if err != nil {
				return err
			}
			e.Out.Printf("The volumes of %s are given up; start the agent\n", kit.Clean(dir))
			if len(lost) > 0 {
				e.Out.Printf("The servers know them until each is deleted: berth volume delete VOLUME\n")
			}
			return nil
		},
	}
	yes.AddTo(cmd)
	return cmd
}
