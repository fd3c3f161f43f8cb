package consultokens

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/job"
	"berth/internal/port/consul"
)

// Service is a service of an alloc that is registered in Consul.
type Service struct {
	ID    string // in Consul
	Alloc ids.Alloc
	Owner string // the task that it belongs to; empty: the group
	Task  string // in whose secrets directory its token lies
	Of    *job.Service
}

// Agent is the node's agent of Consul as a service speaks to it: by the token that Consul gives for its identity, where
// it has one, and by the node's own elsewhere. From the first to the second there is no way. It is asked by one
// goroutine at a time for a service.
func (k *Keeper) Agent(ctx context.Context, of Service) (*consul.Agent, error) {
	if !k.ByIdentity(of.Of) {
		return k.cfg.Agent, nil
	}
	token, err := k.kept(of)
	if err != nil {
		return nil, err
	}
	if token.Empty() {
		if token, err = k.ofService(ctx, of.Alloc, of.Owner, of.Of); err != nil {
			return nil, fault.Note(err, "get the token of Consul for", "service "+of.Of.Name)
		}
		if err := k.keep(of, token); err != nil {
			return nil, errors.Join(err, k.Return(ctx, token))
		}
	}
	return k.cfg.Agent.As(token), nil
}

// Known is the same without asking for a token: one of a service that has none yet speaks as nobody.
func (k *Keeper) Known(of Service) *consul.Agent {
	if !k.ByIdentity(of.Of) {
		return k.cfg.Agent
	}
	token, err := k.kept(of)
	if err != nil {
		token = redact.Secret{}
	}
	return k.cfg.Agent.As(token)
}

// Release gives the token of a service back that is not registered any more. It may be repeated.
func (k *Keeper) Release(ctx context.Context, of Service) error {
	if !k.ByIdentity(of.Of) {
		return nil
	}
	token, err := k.kept(of)
	if err != nil || token.Empty() {
		return err
	}
	if err := k.Return(ctx, token); err != nil {
		return fault.Note(err, "return", "the token of Consul of service "+of.Of.Name)
	}
	k.mu.Lock()
	delete(k.held, of.ID)
	k.mu.Unlock()
	root, err := os.OpenRoot(k.cfg.Secrets(of.Alloc, of.Task))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer func() { _ = root.Close() }() // opened for paths only
		if err = root.Remove(fileOf(of)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return fault.Wrap(err, fault.Internal, "remove", "the token of Consul of service "+of.Of.Name)
}

// fileOf is where the token of a service outlives the agent: beside what else is secret of its task, for root alone.
func fileOf(of Service) string { return "consul_service_" + ids.Segment(of.ID) }

// mostToken bounds what is read as a token.
const mostToken = 1 << 10

// kept is the token that a service has; empty: it has none.
func (k *Keeper) kept(of Service) (redact.Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if token := k.held[of.ID]; !token.Empty() {
		return token, nil
	}
	token, err := readFile(k.cfg.Secrets(of.Alloc, of.Task), fileOf(of))
	if err == nil && !token.Empty() {
		k.held[of.ID] = token
	}
	return token, err
}

func readFile(dir, name string) (redact.Secret, error) {
	fail := func(err error) (redact.Secret, error) {
		if errors.Is(err, fs.ErrNotExist) {
			return redact.Secret{}, nil
		}
		return redact.Secret{}, fault.Wrap(err, fault.Internal, "read", "a token of Consul in "+dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = root.Close() }() // opened for paths only
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	switch st, err := f.Stat(); {
	case err != nil:
		return fail(err)
	case !st.Mode().IsRegular(): // a pipe that the task holds open would be read for ever
		return redact.Secret{}, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, mostToken))
	if err != nil {
		return fail(err)
	}
	return redact.New(strings.TrimSpace(string(text))), nil
}

// keep writes a token down, whole or not at all, before anything is done by it.
func (k *Keeper) keep(of Service, token redact.Secret) error {
	dir, name := k.cfg.Secrets(of.Alloc, of.Task), fileOf(of)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", dir)
	}
	defer func() { _ = root.Close() }() // opened for paths only
	next := "." + name
	_ = root.Remove(next) // left by a crash, if at all; the exclusive create below decides
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(token.Reveal())
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = root.Rename(next, name)
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "write", "a token of Consul in "+dir)
	}
	k.mu.Lock()
	k.held[of.ID] = token
	k.mu.Unlock()
	return nil
}
