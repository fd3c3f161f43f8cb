package keyring_test

import (
	"context"
	"crypto/x509"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/server/keyring"
	"berth/internal/testkit/localstate"
)

// Given a cluster whose authority is not made yet, when a person asks for it, then he gets it once it is there, and
// hears after some seconds that it is not if nobody makes it.
func TestAnAuthorityThatIsAboutToBeMadeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		a := &keyring.Authority{
			Keyring: open(t, t.TempDir()), Store: c.Store, Proposer: c, Log: slog.New(slog.DiscardHandler),
		}
		begun := time.Now()
		if _, err := a.Await(t.Context()); !fault.Has(err, fault.Unavailable) || time.Since(begun) > time.Minute {
			t.Fatalf("where nobody makes one, after %s: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(3*time.Second, func() {
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		got, err := a.Await(t.Context())
		if err != nil || got.Root == nil {
			t.Fatalf("where one is made meanwhile: %v, %v", got, err)
		}
	})
}

// Given a root that was replaced, when the overlap is over, then it is forgotten by itself; not a day before, and
// another server that leads meanwhile does not forget it either.
func TestAFormerRootIsForgottenWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		a := &keyring.Authority{
			Keyring: open(t, t.TempDir()), Store: c.Store, Proposer: c, Log: slog.New(slog.DiscardHandler),
		}
		lead := func() (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- a.Run(ctx) }()
			synctest.Wait()
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		end := lead()
		first, err := a.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Rotate(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		now, err := a.Open()
		if err != nil || len(now.Trusted) != 2 || len(now.Chain) != 3 || now.Root.Equal(first.Root) ||
			!now.Trusted[1].Equal(first.Root) {
			t.Fatalf("%+v, %v", now, err)
		}
		if now.Chain[1].CheckSignatureFrom(first.Root) != nil || now.Chain[1].IsCA != true {
			t.Error("the former root does not vouch for the present one")
		}
		if _, err := a.Rotate(t.Context(), "ann"); !fault.Has(err, fault.Conflict) {
			t.Errorf("a third root beside them: %v", err)
		}
		former := func() int { return len(c.Store.Snapshot().Authority(nil).Former) }
		time.Sleep(trust.Overlap / 2)
		end()
		end = lead()
		time.Sleep(trust.Overlap/2 - 24*time.Hour)
		synctest.Wait()
		if former() != 1 {
			t.Error("it is forgotten before its time")
		}
		time.Sleep(24*time.Hour + time.Second)
		synctest.Wait()
		if former() != 0 {
			t.Error("it is not forgotten")
		}
		if now, err = a.Open(); err != nil || len(now.Trusted) != 1 || len(now.Chain) != 1 {
			t.Errorf("%+v, %v", now, err)
		}
		end()
	})
}

// Given a server's credentials, when the root is replaced, or they have lived for two thirds of their life, then the
// next connection shows others, which whoever knows the former root alone believes.
func TestAServerShowsWhatItsAuthorityIssuesNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		a := &keyring.Authority{
			Keyring:  open(t, t.TempDir()),
			Store:    c.Store,
			Proposer: c,
			Lifetime: 3 * time.Minute,
			Log:      slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		first, err := a.Await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cred := &keyring.Credentials{Name: "s1", Authority: a}
		shown := func() []*x509.Certificate {
			t.Helper()
			got, err := cred.Certificate()
			if err != nil {
				t.Fatal(err)
			}
			var out []*x509.Certificate
			for _, der := range got.Certificate {
				crt, err := x509.ParseCertificate(der)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, crt)
			}
			return out
		}
		one := shown()
		time.Sleep(2*time.Minute - time.Second)
		if !shown()[0].Equal(one[0]) {
			t.Error("it is renewed before it is due")
		}
		time.Sleep(2 * time.Second)
		two := shown()
		if two[0].Equal(one[0]) || len(two) != 2 {
			t.Errorf("it is not renewed, %d beside", len(two))
		}
		if _, err := a.Rotate(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		three := shown()
		if three[0].Equal(two[0]) || len(three) != 4 {
			t.Errorf("%d are shown once the root is replaced", len(three))
		}
		for _, by := range []*x509.Certificate{first.Root, three[1]} {
			rules := trust.Rules{Roots: []*x509.Certificate{by}, Now: time.Now()}
			if _, err := rules.Verify(three); err != nil {
				t.Error(err)
			}
		}
		rules := cred.Rules("")
		for what, chain := range map[string][]*x509.Certificate{"before": two, "since": three[:1]} {
			if _, err := rules.Verify(chain); err != nil {
				t.Errorf("what was issued %s is not believed: %v", what, err)
			}
		}
		if _, err := a.Finish(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if _, err := cred.Rules("").Verify(two); err == nil {
			t.Error("what a root that is forgotten has issued is believed")
		}
	})
}
