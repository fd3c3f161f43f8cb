// Package tags owns the commands by which versions of jobs get names, and how a name is found. Only package jobs
// imports it.
package tags

import (
	"context"
	"strconv"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// Noun is a noun of jobs with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("tag", "Name versions of a job, which are kept then", newApply(e), newUnset(e))
}

func newApply(e *kit.Env) *kit.Command {
	var name, description, version string
	cmd := &kit.Command{
		Use:   "apply [flags] <job>",
		Short: "Name a version of a job",
		Long: `Names a version of a job, by default the newest. A version with a name is kept however many come after
it, and "berth job revert" and "berth job history" know it by its name. A name is of one version of a job alone; a
version that has one gets the new one instead.`,
		Example: `  berth job tag apply -name golden web
  berth job tag apply -name golden -version 3 -description "before the move" web`,
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error {
			req := &api.TagVersionRequest{Description: description, Latest: true}
			if name == "" {
				return unnamed()
			}
			if version != "" {
				n, err := strconv.ParseUint(version, 10, 64)
				if err != nil {
					return kit.Fail(fault.Invalid, "", "-version %q is not a number", version)
				}
				req.Version, req.Latest = n, false
			}
			ref, err := e.Job(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			if _, _, err := e.Client().Jobs().TagVersion(ctx, ref.ID, name, req, ref.Write()); err != nil {
				return kit.Doing(err, "tag", "job", ref.ID)
			}
			which := "the newest version"
			if version != "" {
				which = "version " + version
			}
			e.Out.Printf("Job %q: %s is tagged %q\n", ref.ID, which, name)
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&name, "name", "", "the `name`; without \"/\"")
	fs.StringVar(&description, "description", "", "what is said beside it")
	fs.StringVar(&version, "version", "", "the version of this `number`; without: the newest")
	return cmd
}

func newUnset(e *kit.Env) *kit.Command {
	name := ""
	cmd := &kit.Command{
		Use:     "unset [flags] <job>",
		Short:   "Take the name of a version away",
		Long:    `Takes the name of a version away. The version is kept as long as those without a name are.`,
		Example: "  berth job tag unset -name golden web",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			if name == "" {
				return unnamed()
			}
			ref, err := e.Job(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			if _, err := e.Client().Jobs().UntagVersion(ctx, ref.ID, name, ref.Write()); err != nil {
				return kit.Doing(err, "untag", "job", ref.ID)
			}
			e.Out.Printf("Job %q: no version is tagged %q any more\n", ref.ID, name)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the `name` of the version")
	return cmd
}

func unnamed() error {
	return kit.Fail(fault.Invalid, "", "the tag is not named: -name says it")
}

// Version is the version that an argument means: its number, or else its name. A name that is a number is not looked
// for.
func Version(ctx context.Context, e *kit.Env, ref kit.Ref, arg string) (uint64, error) {
	if n, err := strconv.ParseUint(arg, 10, 64); err == nil {
		return n, nil
	}
	out, _, err := e.Client().Jobs().Versions(ctx, ref.ID, false, ref.Query())
	if err != nil {
		return 0, kit.Doing(err, "read the versions of", "job", ref.ID)
	}
	for _, v := range out.Versions {
		if t := v.VersionTag; t != nil && t.Name == arg {
			return kit.Value(v.Version), nil
		}
	}
	return 0, kit.Fail(fault.NotFound, `"berth job history `+ref.Typed()+`" lists the versions that are kept`,
		"no version of job %q has the number or the name %q", ref.ID, arg)
}
