package keeper

// Interrupt has before called with the name of each step; with an error the step is not made.
func (k *Keeper) Interrupt(before func(step string) error) {
	k.walk = func(s step) error {
		if err := before(s.name); err != nil {
			return err
		}
		return s.do()
	}
}

// Sweep sweeps once.
var Sweep = (*Keeper).sweep

// Verify looks once at whether everything is there.
var Verify = (*Keeper).verify
