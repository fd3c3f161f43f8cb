package keyring_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/redact"
	"berth/internal/model/datakey"
	"berth/internal/server/fsm"
	"berth/internal/server/keyring"
)

// Given keys that were followed by another one, when an age has passed since, then those go with which nothing is
// sealed, and no other. An active key that is too old is followed by another one, with which all is sealed anew.
func TestKeysComeAndGoWithTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, k := begun(t)
		first := c.Store.Snapshot().ActiveDataKey(nil).ID
		data, err := k.Keyring.Seal(c.Store.Snapshot(), "db", redact.MapOf(map[string]string{"password": "x"}))
		if err != nil {
			t.Fatal(err)
		}
		c.Must(t, &fsm.SecretPut{Name: "db", Data: data})
		var made []string
		for range 2 { // the secret stays sealed with the first; nothing is with the second
			time.Sleep(time.Minute)
			next, _, err := k.Rotate(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, next.ID)
		}
		k.Ages = keyring.Ages{Every: time.Minute, Kept: time.Hour, Rotate: 3 * time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Age(ctx) }()
		holds := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for key := range c.Store.Snapshot().DataKeys(nil) {
				got = append(got, key.ID)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: the keys are %v, want %v", when, got, want)
			}
		}
		time.Sleep(59*time.Minute + time.Second)
		holds("soon", first, made[0], made[1])
		time.Sleep(time.Minute)
		holds("after an age", first, made[1])
		time.Sleep(2 * time.Hour)
		now := c.Store.Snapshot()
		active := now.ActiveDataKey(nil).ID
		if active == made[1] || !datakey.Under(now.Secret(nil, "db").Data, active) {
			t.Errorf("the active key is %s, of %v", active, made)
		}
		time.Sleep(time.Hour)
		holds("after another one", active)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
