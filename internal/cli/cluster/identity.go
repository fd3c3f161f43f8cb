package cluster

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/redact"
	"berth/internal/cli/kit"
)

// Identities decides who the node of a data directory is that no agent uses.
type Identities interface {
	// Keep has it go on as the node of a token, and returns that node.
	Keep(ctx context.Context, dataDir string, token redact.Secret) (node string, err error)
	// New has it begin as another node, and returns that.
	New(ctx context.Context, dataDir string) (node string, err error)
}

// readmit is "node readmit".
type readmit struct {
	env     *kit.Env
	reason  string
	ttl     time.Duration
	yes     kit.Agreement
	formats kit.Formats
}

func newReadmit(e *kit.Env) *kit.Command {
	r := &readmit{env: e}
	cmd := &kit.Command{
		Use:   "readmit [flags] <node>",
		Short: "Let an agent that has lost its store take up a node",
		Long: `Makes the token by which one agent start may take up the identity of a node although nothing in its data
directory proves that it is that node: client.db was lost while no task ran. Give it to "berth node identity keep" on
the machine. It is used once, and nobody keeps it: who has it can be the node. Who asked for it, when and why stays with
the node.

It is refused while the node is heard.`,
		Example: `  berth node readmit -reason "its disk was checked, client.db was empty" 8f3a11c0`,
		IDs:     "nodes",
		Run:     func(ctx context.Context, args []string) error { return r.do(ctx, args[0]) },
	}
	cmd.Flags().StringVar(&r.reason, "reason", "", "why it is certain that this is the node (a `text`); it is recorded")
	cmd.Flags().DurationVar(&r.ttl, "ttl", time.Hour, "the `duration` for which the token can be used, a day at most")
	r.yes.AddTo(cmd)
	return r.formats.AddTo(cmd)
}

func (r *readmit) do(ctx context.Context, arg string) error {
	if strings.TrimSpace(r.reason) == "" {
		return kit.Usage("-reason is missing")
	}
	ref, err := r.env.Node(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	question := "May an agent that has lost its store be node " + kit.ID(ref.ID, false) + "?"
	if err := r.env.Confirm(r.yes, question, "give -yes"); err != nil {
		return err
	}
	out, _, err := r.env.Client().Nodes().Readmit(ctx, ref.ID,
		&api.NodeReadmitRequest{Reason: r.reason, TTL: r.ttl}, nil)
	return r.formats.Show(r.env.Out, out, kit.Doing(err, "readmit", "node", ref.ID), func() {
		r.env.Out.Text(out.Token + "\n")
		r.env.Err.Notice("It can be used once, until " + kit.At(out.Expires) +
			", with the agent stopped: berth node identity keep -data-dir DIR TOKEN")
	})
}

// identity is "node identity", whose verbs ask no agent: none may run.
type identity struct {
	env     *kit.Env
	ids     Identities
	dataDir string
	yes     kit.Agreement
}

func newIdentity(e *kit.Env, ids Identities) *kit.Command {
	return (&kit.Command{
		Use:   "identity",
		Short: "Decide who a node is that has lost its store",
		Long: `A node knows who it is by client.db in its data directory. When that is lost while tasks of it run, they
prove that it is the same node, and it goes on. When it is lost and no task runs, but things of a node lie in the
directory, the agent does not start the node: the directory may be a copy, or have been away. Then decide, on the
machine, with the agent stopped: "keep" goes on as the node that it was, "new" begins as another.`,
	}).Add(newIdentityVerb(e, ids, keepIdentity), newIdentityVerb(e, ids, anotherIdentity))
}

// newIdentityVerb makes a verb of "node identity" with the flags that all have.
func newIdentityVerb(e *kit.Env, ids Identities, verb func(*identity) *kit.Command) *kit.Command {
	i := &identity{env: e, ids: ids}
	cmd := verb(i)
	cmd.Local = true
	cmd.Flags().StringVar(&i.dataDir, "data-dir", "", "the agent's data `directory`")
	i.yes.AddTo(cmd)
	return cmd
}

func keepIdentity(i *identity) *kit.Command {
	return &kit.Command{
		Use:   "keep [flags] <token>",
		Short: "Go on as the node that it was",
		Long: `Writes down that the node of a data directory is the one of the token that "berth node readmit" made; -
reads the token from the standard input. Nothing is ended and nothing is unmounted: what runs and what is mounted is
found when the agent starts, kept as orphans, and released in the ordinary way.`,
		Example: "  berth node identity keep -data-dir /var/lib/berth TOKEN",
		Run:     func(ctx context.Context, args []string) error { return i.keep(ctx, args[0]) },
	}
}

func anotherIdentity(i *identity) *kit.Command {
	return &kit.Command{
		Use:   "new [flags]",
		Short: "Begin as another node",
		Long: `Makes a new identity for the node of a data directory. It is refused while anything is mounted there or a
process of an allocation lives. The servers know the old node as before: its claims, and the volumes that live on it
alone, stay until "berth node replace" says that it is dead. Volumes of the bundled plugin stay on the disk, in a
directory beside that of the new node's.`,
		Example: "  berth node identity new -data-dir /var/lib/berth",
		Run:     func(ctx context.Context, _ []string) error { return i.another(ctx) },
	}
}

func (i *identity) keep(ctx context.Context, arg string) error {
	if err := i.ask("go on as the node of the token"); err != nil {
		return err
	}
	token := redact.New(arg)
	if arg == "-" {
		text, err := io.ReadAll(io.LimitReader(i.env.In, 1024))
		if err != nil {
			return err
		}
		token = redact.New(strings.TrimSpace(string(text)))
	}
	node, err := i.ids.Keep(ctx, i.dataDir, token)
	if err != nil {
		return err
	}
	i.env.Out.Printf("The node of %s is %q; start its agent\n", i.dataDir, node)
	return nil
}

func (i *identity) another(ctx context.Context) error {
	if err := i.ask("begin as another node"); err != nil {
		return err
	}
	node, err := i.ids.New(ctx, i.dataDir)
	if err != nil {
		return err
	}
	i.env.Out.Printf("The node of %s is a new one, %q; start its agent\n", i.dataDir, node)
	i.env.Out.Printf("When the old one is certain to be dead: berth node replace -reason … OLD %s\n",
		kit.ID(node, false))
	return nil
}

func (i *identity) ask(what string) error {
	if i.dataDir == "" {
		return kit.Usage("-data-dir is missing")
	}
	return i.env.Confirm(i.yes, fmt.Sprintf("Shall the node of %s %s?", i.dataDir, what), "give -yes")
}
