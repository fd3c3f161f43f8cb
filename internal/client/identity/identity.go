// Package identity owns who a node is when its agent starts: by its store, by what lies beside it when the store is
// lost, or by a person's word; and that the records of a data directory are about that directory. It asks no server.
// Package client and the composition root import it.
package identity

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/client/localstate"
	"berth/internal/client/shim"
)

// Config says where a node's things lie.
type Config struct {
	DataDir string
	// Shims is the directory of the shims' sockets, Slice the cgroup of all allocs; empty: the node has none.
	Shims, Slice string
	// Volumes are directories in which a bundled plugin keeps volumes.
	Volumes []string
	Log     *slog.Logger
}

// StoreDir is where the node's store lies beneath a data directory.
func StoreDir(dataDir string) string { return filepath.Join(dataDir, "client") }

// Lost is the refusal to start a node of which nothing proves who it is, though things of a node lie there.
type Lost struct{ Reason string }

func (l *Lost) Error() string {
	return "nothing says for certain which node this is: its store knows nothing, and " + l.Reason
}

// Establish finds out who this node is, and remembers it. A store that is lost beneath living tasks is no reason to
// become another node; one that is lost beneath anything else is a person's to judge: the error is a *Lost then.
func Establish(ctx context.Context, store *localstate.Store, cfg Config) (localstate.Identity, error) {
	if err := settle(ctx, store, cfg); err != nil {
		return localstate.Identity{}, err
	}
	beside, damaged, copyErr := store.IdentityCopy() // as it is before the store writes it anew
	id, known, err := store.Identity()
	if err != nil {
		return id, err
	}
	if known {
		other := beside.Node != "" && (beside.Node != id.Node || beside.Secret.Reveal() != id.Secret.Reveal())
		if damaged || other || copyErr != nil {
			cfg.Log.Warn("the copy of the node's identity was damaged or of another node: it is written anew, from "+
				"the node's store", logkey.Path, localstate.IdentityPath(StoreDir(cfg.DataDir)), logkey.Node, id.Node)
		}
		return id, nil
	}
	verdict, left, err := judge(ctx, cfg)
	switch {
	case err != nil:
		return localstate.Identity{}, err
	case verdict == Begins:
		id = fresh(ids.Node(ids.New()))
	default:
		id = left.identity
		cfg.Log.Warn("the node's store is lost while tasks of it run: it goes on under its old identity, and keeps "+
			"what it has no record of", logkey.Node, id.Node)
	}
	return id, store.PutIdentity(id, redact.Secret{})
}

// Judge says what a start makes of a data directory in which the node's store is not there, and changes nothing: the
// error is that by which it refuses. taken: the node goes on as the one whose tasks run.
func Judge(ctx context.Context, cfg Config) (taken bool, err error) {
	verdict, _, err := judge(ctx, cfg)
	return verdict == Taken, err
}

func judge(ctx context.Context, cfg Config) (Verdict, *found, error) {
	left, err := look(ctx, cfg)
	if err != nil {
		return Refused, nil, err
	}
	verdict, why := left.Decide()
	if verdict == Refused {
		return verdict, nil, refuse(cfg, left, why)
	}
	return verdict, left, nil
}

func fresh(node ids.Node) localstate.Identity {
	return localstate.Identity{Node: node, Secret: redact.New(ids.New())}
}

func refuse(cfg Config, left *found, why string) error {
	node := "NODE"
	if left.Copy != "" {
		node = ids.Short(left.Copy)
	}
	return fault.WithHint(
		fault.Wrap(&Lost{Reason: why}, fault.Conflict, "start a node on", cfg.DataDir),
		fmt.Sprintf("restore %s from a copy, or decide: to go on as the node that it was, ask the servers for a token "+
			"with \"berth node readmit -reason … %s\", stop this agent, and give it to "+
			"\"berth node identity keep -data-dir %s TOKEN\"; "+
			"to begin as another node, stop this agent and run \"berth node identity new -data-dir %s\"",
			filepath.Join(StoreDir(cfg.DataDir), "client.db"), node, cfg.DataDir, cfg.DataDir))
}

// lookTimeout bounds the look for what lives.
const lookTimeout = 10 * time.Second

// living lists the shims beneath a directory that may hold something.
func living(ctx context.Context, dir, slice string) ([]shim.Held, error) {
	if dir == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return shim.Living(ctx, dir, slice)
}
