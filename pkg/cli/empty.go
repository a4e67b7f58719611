// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/pkg/compute"
)

// emptyMeans is the annotation of a flag whose empty value means something of its own, or drops nothing.
const emptyMeans = "berth-empty-means"

// mayBeEmpty lets flags be given an empty value.
func mayBeEmpty(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, emptyMeans, []string{"true"}); err != nil {
			panic(err) // the flag is there
		}
	}
}

// refuseEmpty refuses a flag that is given and empty, as --group "$G" is where G is not set: most commands take an
// empty value as one that was not given, and would do without the rule, the filter or the key that was meant.
func refuseEmpty(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Annotations[emptyMeans] == nil && isEmpty(f) {
			err = compute.Invalid(f.Name, "", "give it a value, or leave out --"+f.Name)
		}
	})
	return err
}

// isEmpty says whether the value of a flag is the empty text, or a list with that in it. A list that is not empty by
// default is emptied on purpose.
func isEmpty(f *pflag.Flag) bool {
	if list, is := f.Value.(pflag.SliceValue); is {
		all := list.GetSlice()
		return slices.Contains(all, "") || len(all) == 0 && f.DefValue == "[]"
	}
	return f.Value.Type() == "string" && f.Value.String() == ""
}
