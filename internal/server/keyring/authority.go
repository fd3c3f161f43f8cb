package keyring

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"log/slog"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
)

// authorityName is what the key of the cluster's authority is sealed under.
const authorityName = "authority"

// Authority issues the certificates of the cluster: its root lies in the replicated state, with the key sealed.
type Authority struct {
	Keyring  *Keyring
	Store    *state.Store
	Proposer fsm.Proposer
	Lifetime time.Duration // of the certificates that it issues; 0: trust.Lifetime
	Log      *slog.Logger
}

// Run makes the authority when there is none, and otherwise sees whether this server can use it; then it has roots that
// were replaced forgotten when their time is over, until ctx ends. Run it on the leader alone.
func (a *Authority) Run(ctx context.Context) error {
	s := a.Store.Snapshot()
	m := s.Meta(nil)
	switch {
	case s.Authority(nil) != nil:
		if _, err := a.Keyring.authority(s); err != nil {
			a.Log.Error("this server cannot issue certificates of the cluster", logkey.Error, err)
		}
	case m.Schema < joining.Schema:
		a.Log.Info("nobody can join before every server is upgraded", "schema", m.Schema, "needs", joining.Schema)
	default:
		cmd, err := a.Keyring.newAuthority(s)
		if err != nil {
			return err
		}
		if _, _, err := a.Proposer.Propose(ctx, cmd); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return a.forget(ctx)
}

// forget has roots forgotten when their time is over.
func (a *Authority) forget(ctx context.Context) error {
	for ctx.Err() == nil {
		s, w := a.Store.Snapshot(), state.NewWatch()
		until, any := ends(s.Authority(w))
		if any && !time.Now().Before(until) {
			if _, _, err := a.Proposer.Propose(ctx, &joining.AuthorityFinish{}); err != nil {
				return ended(ctx, err)
			}
			a.Log.Warn("a root of the cluster that was replaced is trusted no more: its time is over")
			continue
		}
		wait, cancel := ctx, func() {}
		if any {
			wait, cancel = context.WithDeadline(ctx, until)
		}
		_ = w.Wait(wait) // the end of ctx ends the loop
		cancel()
	}
	return nil
}

// ends is when the first of the roots that were replaced is to be forgotten; any: there is one.
func ends(a *state.Authority) (until time.Time, any bool) {
	if a == nil || len(a.Former) == 0 {
		return time.Time{}, false
	}
	first := slices.MinFunc(a.Former, func(a, b trust.Former) int { return a.Until.Compare(b.Until) })
	return first.Until, true
}

// Open is the cluster's authority. It is Unavailable while there is none yet.
func (a *Authority) Open() (*trust.Authority, error) {
	s := a.Store.Snapshot()
	if s.Authority(nil) == nil {
		return nil, fault.WithHint(fault.New(fault.Unavailable, "open", "the cluster's authority", "there is none yet"),
			"it is made when a server leads and every server runs this version; try again")
	}
	out, err := a.Keyring.authority(s)
	if err != nil {
		return nil, err
	}
	out.Lifetime = a.Lifetime
	return out, nil
}

// Rotate replaces the cluster's root by a new one, which the present one vouches for. By is who asks for it, as the API
// knows them.
func (a *Authority) Rotate(ctx context.Context, by string) (uint64, error) {
	s := a.Store.Snapshot()
	present, err := a.Open()
	if err != nil {
		return 0, err
	}
	next, err := a.Keyring.newAuthority(s)
	if err != nil {
		return 0, err
	}
	root, err := x509.ParseCertificate(next.Root)
	if err != nil {
		return 0, fault.Wrap(err, fault.Internal, "read", "the cluster's new root")
	}
	cross, err := present.CrossSign(root, time.Now())
	if err != nil {
		return 0, err
	}
	_, index, err := a.Proposer.Propose(ctx, &joining.AuthorityRotate{
		After:  present.Root.Raw,
		Root:   next.Root,
		Cross:  cross,
		Sealed: next.Sealed,
		By:     by,
	})
	return index, err
}

// Finish has the roots that were replaced forgotten before their time is over.
func (a *Authority) Finish(ctx context.Context, force bool) (uint64, error) {
	_, index, err := a.Proposer.Propose(ctx, &joining.AuthorityFinish{Early: true, Force: force})
	return index, err
}

// soon is how long Await waits.
const soon = 10 * time.Second

// Await is Open for a person, who asks as soon as a server has started: an authority that is about to be made is waited
// for.
func (a *Authority) Await(ctx context.Context) (*trust.Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		s, w := a.Store.Snapshot(), state.NewWatch()
		m := s.Meta(w)
		if s.Authority(w) != nil || m != nil && m.Schema < joining.Schema || w.Wait(ctx) != nil {
			return a.Open()
		}
	}
}

func (k *Keyring) newAuthority(s *state.Snap) (*joining.AuthorityPut, error) {
	key, err := trust.NewKey()
	if err != nil {
		return nil, err
	}
	root, err := trust.NewRoot(s.Meta(nil).ClusterID, key, time.Now())
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "the cluster's authority")
	}
	sealed, err := k.Seal(s, authorityName,
		redact.MapOf(map[string]string{privatePart: base64.StdEncoding.EncodeToString(der)}))
	if err != nil {
		return nil, err
	}
	return &joining.AuthorityPut{Root: root, Sealed: sealed}, nil
}

// authority opens the key, and makes sure that it belongs to the root. There is one.
func (k *Keyring) authority(s *state.Snap) (*trust.Authority, error) {
	a := s.Authority(nil)
	m, err := k.Open(s, authorityName, a.Sealed)
	if err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Internal, "open", "the cluster's authority"),
			"restore "+k.path+" from a copy")
	}
	der, err := base64.StdEncoding.DecodeString(m.Reveal()[privatePart])
	if err != nil {
		return nil, fault.New(fault.Internal, "open", "the cluster's authority", "what is sealed in it is no key")
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", "the cluster's authority")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fault.New(fault.Internal, "open", "the cluster's authority", "what is sealed in it signs nothing")
	}
	out, err := trust.OpenAuthority(a.Root, signer)
	if err != nil {
		return nil, err
	}
	out.Trusted, out.Chain, err = trust.Trusted(a.Root, a.Former)
	return out, err
}
