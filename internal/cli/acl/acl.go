// Package acl owns the commands about access control lists: policies, roles and tokens. Only package cli imports it.
package acl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "acl",
		Short: "Say who may do what: policies, roles and tokens",
		Long: `A policy is a text of rules. A role is a list of policies under a name. A token has policies and roles,
or may do everything; who shows its secret, with -token or the variable BERTH_TOKEN, may do what they say.`,
	}
	return cmd.Add(newBootstrap(e), policies(e), roles(e), tokens(e))
}

// maxSecret bounds the file with a secret, in bytes.
const maxSecret = 1024

func newBootstrap(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "bootstrap [flags] [file]",
		Short: "Make the first token, which may do everything",
		Long: `This is done once. Keep the secret: the servers have nothing but its hash, and show it to nobody again.
With a file, or - for the standard input, the token has the secret that is in it, which must be a UUID.

Where no token is left that may do everything, write the reset index that the refusal names into the file
acl-bootstrap-reset in the folder server of the data_dir of the server that leads, and run this once more.`,
		Example: `  berth acl bootstrap
  uuidgen | berth acl bootstrap -`,
		Run: func(ctx context.Context, args []string) error {
			secret := ""
			if len(args) > 0 {
				text, _, err := e.ReadFile(args[0], "file with the secret", maxSecret)
				if err != nil {
					return err
				}
				if secret = strings.TrimSpace(string(text)); secret == "" {
					return kit.Fail(fault.Invalid, "leave the file out, and the servers make a secret",
						"the file with the secret is empty")
				}
			}
			t, err := e.Client().ACL().Bootstrap(ctx, api.Credential(secret))
			return formats.Show(e.Out, t, doing(err, "bootstrap", "access control lists", ""), func() {
				showToken(e.Out, t)
			})
		},
	}
	return formats.AddTo(cmd)
}

// findings writes what is wrong with the text of a policy line by line, and returns what is left to say. Other errors
// it leaves as they are.
func findings(e *kit.Env, err error, name string) error {
	var status *api.StatusError
	if !errors.As(err, &status) || !strings.Contains(status.Body, "\n") {
		return doing(err, "write", "ACL policy", name)
	}
	for line := range strings.Lines(status.Body) {
		e.Err.Printf("%s\n", kit.Clean(strings.TrimSpace(line)))
	}
	return kit.Fail(fault.Invalid, "correct the file, and apply it again", "ACL policy %q is not written", name)
}

// deleted says that something is gone.
func deleted(e *kit.Env, err error, kind, name string) error {
	if err == nil {
		e.Out.Printf("%s %q is deleted\n", kind, kit.Clean(name))
	}
	return doing(err, "delete", kind, name)
}

// What the API answers in words that its clients know, and what a person can do about it.
const (
	listsOff     = "ACL support disabled"
	listsOffHint = `the agent judges nobody: it runs with "berth agent -dev", or its configuration has ` +
		"acl { enabled = false }"
	madeBefore     = "ACL bootstrap already done "
	madeBeforeHint = `make others with "berth acl token create" and a token that may do everything, or as root over ` +
		`the socket; where there is none, see "berth acl bootstrap -help"`
)

// doing says what was tried when an error came, with the way out.
func doing(err error, op, kind, name string) error {
	var status *api.StatusError
	hint := ""
	switch {
	case !errors.As(err, &status):
	case strings.HasPrefix(status.Body, listsOff):
		hint = listsOffHint
	case strings.HasPrefix(status.Body, madeBefore):
		hint = madeBeforeHint
	case strings.HasSuffix(status.Body, "not found") && name != "":
		hint = fmt.Sprintf("\"berth %s list\" lists them", strings.ToLower(kind))
	}
	if err = kit.Doing(err, op, kind, name); hint != "" {
		return fault.WithHint(err, hint)
	}
	return err
}
