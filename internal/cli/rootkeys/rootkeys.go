// Package rootkeys owns the commands over the keys that the servers seal secrets with. Only package
// cluster imports it.
package rootkeys

import (
	"context"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("root", "Tools for the keys that the servers seal secrets with", newKeyring(e))
}

func newKeyring(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "keyring",
		Short: "List, rotate and remove the keys that secrets are sealed with",
		Long: `What is secret in the servers' state is sealed with a data key, which is in the state as well: sealed for
each server, and for the recovery keys that people keep. It is there in clear nowhere but in the memory of servers.`,
	}
	return cmd.Add(newKeyList(e), newKeyRotate(e), newKeyRemove(e))
}

func newKeyList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "list [flags]",
		Short:   "List the keys, how much is sealed with each, and who can open it",
		Example: "  berth operator root keyring list",
		Run: func(ctx context.Context, _ []string) error {
			all, _, err := e.Client().Operator().RootKeys(ctx, nil)
			return formats.Show(e.Out, all, kit.Doing(err, "list", "the data keys", ""), func() {
				kit.List(e.Out, all, "data keys", []string{"Key", "State", "Create Time", "Sealed", "Can Open It"},
					func(k *api.RootKeyMeta) []string {
						made, holders := kit.At(time.Unix(0, k.CreateTime)), strings.Join(k.Holders, ", ")
						return []string{k.KeyID, k.State, made, strconv.Itoa(k.Sealed), holders}
					})
			})
		},
	}
	return formats.AddTo(cmd)
}

func newKeyRotate(e *kit.Env) *kit.Command {
	var full bool
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "rotate [flags]",
		Short: "Make a new key, with which is sealed from then on",
		Long: `The key that the cluster signs with is made anew, too. What was sealed before stays sealed with the key
that it was sealed with; with -full it is sealed with the new one, and the old keys can be removed.`,
		Example: "  berth operator root keyring rotate -full",
		Run: func(ctx context.Context, _ []string) error {
			k, err := e.Client().Operator().RotateRootKey(ctx, full)
			return formats.Show(e.Out, k, kit.Doing(err, "rotate", "the data keys", ""), func() {
				e.Out.Printf("Data key %s is the active one; entries sealed with it: %d\n", k.KeyID, k.Sealed)
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "seal with it all that is sealed with other keys")
	return formats.AddTo(cmd)
}

func newKeyRemove(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:   "remove <id>",
		Short: "Forget a key that nothing is sealed with any more",
		Long: `It is refused while anything is sealed with the key. The signing key that was made with it goes, too:
what that has signed is believed no longer. States that were saved before have the key, and stay readable.`,
		Example: "  berth operator root keyring remove 5c6a4e0c-51e6-4f3c-9c8a-0f4a3ad5c6f1",
		Run: func(ctx context.Context, args []string) error {
			err := e.Client().Operator().RemoveRootKey(ctx, args[0])
			if err == nil {
				e.Out.Printf("Data key %s is removed\n", kit.Clean(args[0]))
			}
			if err = kit.Doing(err, "remove", "data key", args[0]); api.IsNotFound(err) {
				return fault.WithHint(err, `"berth operator root keyring list" lists them`)
			}
			return err
		},
	}
}
