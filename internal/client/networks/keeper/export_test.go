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

// Leave is what the end of Run does.
var Leave = (*Keeper).leave

// Age lets the bridge have been without allocs for as long as it stays.
func Age(k *Keeper) { k.unused = k.unused.Add(-lingers) }

// Verify looks once at whether everything is there.
func Verify(k *Keeper) { k.verify(false) }

// Unrecorded says what is wrong with the networks of which no record tells.
func Unrecorded(k *Keeper) error {
	_, err := k.unrecorded()
	return err
}

// PluginPorts are the ports as plugins are given them.
var PluginPorts = pluginPorts
