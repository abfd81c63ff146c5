package main

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Who limits come from that nobody made by hand.
const (
	sourceFile = "file"
	sourceAPI  = "api" // of the samples: whoever imports a file later does not sweep them away
	byImport   = "holdfast"
)

// devLimits gives a new development server its limits: those of the file, or the samples. A
// server that has had limits before keeps what became of them.
func (s *site) devLimits(ctx context.Context, file *limitsFile) error {
	if file != nil {
		done, err := s.importLimits(ctx, file)
		if err == nil {
			s.app.say("%s: %s", file.path, importWords(done)) // dev logs from warn on
		}
		return err
	}
	if s.service.Catalog(devTenant).Revision() != 0 {
		return nil
	}
	_, err := s.importLimits(ctx, samples())
	return err
}

// importLimits makes what the file has and the catalogue has not, and changes what differs,
// all or nothing. It deletes nothing. It is done again at each start, so the file wins over
// edits; what is as the file says stays untouched, with its revision and its counts.
func (s *site) importLimits(ctx context.Context, file *limitsFile) (catalogue.Imported, error) {
	note := reserve.Note{At: s.app.now(), Actor: byImport, Reason: file.path}
	done, rev, err := s.editor.As(note).Import(ctx, file.tenant, file.file, byImport)
	if err == nil {
		err = s.service.Reached(ctx, rev)
	} else if file.read != nil {
		err = file.read.Lined(err)
	}
	if err != nil {
		return done, fail(exitFailed, "%s: the limits cannot be imported: %w", file.path, err).next("as they stand", "holdfast limits ls -o yaml")
	}
	s.log.Info("limits imported", "file", file.path, "tenant", file.tenant, "limits", len(file.file.Limits), "created", done.Created, "changed", done.Changed)
	return done, nil
}

// importWords says in one line what an import did.
func importWords(done catalogue.Imported) string {
	var words []string
	if len(done.Created) > 0 {
		words = append(words, "created "+strings.Join(done.Created, ", "))
	}
	if len(done.Changed) > 0 {
		words = append(words, "changed "+strings.Join(done.Changed, ", "))
	}
	if len(words) == 0 {
		return "every limit stands as the file says"
	}
	return strings.Join(words, "; ")
}
