package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

// Bounds of a release by force.
const (
	usualBlock   = 10                  // minutes that the form proposes
	mostBlock    = 30 * 24 * time.Hour // as the API has it
	mostAtOnce   = 100                 // holds of one form
	endedAlready = "This hold ended meanwhile; nothing was released."
)

// forceBody is the form that ends a hold.
type forceBody struct {
	Path, Back, ID, Last, What, Learns, Subject string
	Fence                                       string
	Reason, Minutes                             string
	Block                                       bool
	Faults                                      []string
}

func (p *Pages) forceBody(v *visit, h *reserve.Reservation) forceBody {
	id := h.ID.String()
	b := forceBody{
		Path: p.Prefix + holdPath(id) + "/force", Back: p.Prefix + holdPath(id), ID: id, Last: lastOf(id), Subject: h.Subject.String(),
		Fence: strconv.FormatInt(h.Fence, 10), Minutes: strconv.Itoa(usualBlock),
		What: strings.Join(slices.DeleteFunc([]string{
			placeWords(h), h.Subject.String(), ownerWords(h.Owner), "held " + web.Age(v.now.Sub(h.CreatedAt)), "fence " + strconv.FormatInt(h.Fence, 10),
		}, func(s string) bool { return s == "" }), " · "),
		Learns: learnsWords(v, h), Faults: v.faults,
	}
	if v.r.Method == http.MethodPost { // shown again: as it was filled in, but the fence, which must be looked at anew
		b.Reason, b.Block = v.form("reason"), v.form("block") != ""
		if v.form("minutes") != "" {
			b.Minutes = v.form("minutes")
		}
	}
	return b
}

// learnsWords says when the worker hears of it at the latest.
func learnsWords(v *visit, h *reserve.Reservation) string {
	due := h.LastBeat.Add(h.HoldTTL / 3)
	if due.After(v.now) {
		return "It learns at its next heartbeat (by " + due.UTC().Format("15:04:05 UTC") + "), and clients in Go and exec stop then."
	}
	return "Its heartbeat is late: it may be dead, or may never ask again."
}

// forceForm shows the form on a page of its own.
func (p *Pages) forceForm(ctx context.Context, v *visit) (web.View, error) {
	h, err := p.theHold(ctx, v)
	if err != nil {
		return web.View{}, err
	}
	if h.State != reserve.Held {
		return web.View{}, &formFault{status: http.StatusConflict, says: []string{endedAlready}}
	}
	return web.View{Page: "force", Title: "Force release " + shortID(h.ID.String()), Section: "holds", Body: p.forceBody(v, &h), Still: true}, nil
}

// force ends the hold whose fence the form shows, and no other.
func (p *Pages) force(ctx context.Context, v *visit) (string, error) {
	id, err := reserve.ParseID(v.r.PathValue("id"))
	if err != nil {
		return "", reserve.ErrNotFound
	}
	var faults []string
	fence, err := strconv.ParseInt(v.form("fence"), 10, 64)
	if err != nil || fence < 1 {
		faults = append(faults, "The form has no fence; open it again.")
	}
	if !strings.EqualFold(v.form("last"), lastOf(id.String())) {
		faults = append(faults, "The last 4 of the id are "+lastOf(id.String())+"; what you typed differs.")
	}
	reason, block, more := v.reasonAndBlock()
	if faults = append(faults, more...); len(faults) > 0 {
		return "", wrong(faults...)
	}
	if err := p.forceOne(ctx, v, id, fence, reason, block); err != nil {
		return "", err
	}
	return holdPath(id.String()) + "?done=forced", nil
}

// forceOne is the act itself.
func (p *Pages) forceOne(ctx context.Context, v *visit, id reserve.ID, fence int64, reason string, block time.Duration) error {
	trail := p.note(v, reason)
	_, err := p.Service.Force(ctx, v.who.Tenant, id, fence, v.who.ID(), reason, block, &trail)
	if endedMeanwhile(err) {
		return &formFault{status: http.StatusConflict, says: []string{endedAlready}}
	}
	return err
}

// endedMeanwhile: whatever the hold became, it is not the one that was seen.
func endedMeanwhile(err error) bool {
	_, lost := errors.AsType[*reserve.LostError](err)
	_, settled := errors.AsType[*reserve.SettledError](err)
	return lost || settled || errors.Is(err, reserve.ErrFenced) || errors.Is(err, reserve.ErrNotFound)
}

// reasonAndBlock reads what every form of this kind has.
func (v *visit) reasonAndBlock() (reason string, block time.Duration, faults []string) {
	if reason = v.form("reason"); !readable(reason) || len(reason) > reserve.MaxReason {
		faults = append(faults, "Say why, in up to 512 bytes of readable text: it goes into the trail and to the worker.")
	}
	if v.form("block") != "" {
		minutes, err := strconv.ParseInt(v.form("minutes"), 10, 32)
		if block = time.Duration(minutes) * time.Minute; err != nil || minutes < 1 || block > mostBlock {
			faults = append(faults, fmt.Sprintf("A block lasts 1 to %d whole minutes.", int64(mostBlock/time.Minute)))
		}
	}
	return reason, block, faults
}

// someBody is the form that ends several holds.
type someBody struct {
	Path, Back, Reason, Count string
	Number                    int
	Refs, Lines, Faults       []string
}

// picked are the holds that were ticked, each with its fence.
func (v *visit) picked() (refs []string, ids []reserve.ID, fences []int64, err error) {
	refs = v.r.PostForm["hold"]
	if len(refs) == 0 {
		return nil, nil, nil, wrong("Tick the holds to release first.")
	}
	if len(refs) > mostAtOnce {
		return nil, nil, nil, wrong(fmt.Sprintf("At most %d holds are released by one form.", mostAtOnce))
	}
	for _, ref := range refs {
		text, fence, _ := strings.Cut(ref, ":")
		id, idErr := reserve.ParseID(text)
		n, err := strconv.ParseInt(fence, 10, 64)
		if idErr != nil || err != nil || n < 1 {
			return nil, nil, nil, wrong("The ticked holds cannot be read; open the list again.")
		}
		ids, fences = append(ids, id), append(fences, n)
	}
	return refs, ids, fences, nil
}

// forceSome asks before several holds are released.
func (p *Pages) forceSome(_ context.Context, v *visit) (web.View, error) {
	if v.r.Method != http.MethodPost {
		return web.View{}, wrong("Tick the holds to release in the list of holds first.")
	}
	refs, ids, _, err := v.picked()
	if err != nil {
		return web.View{}, err
	}
	b := someBody{
		Path: p.Prefix + "/holds/force", Back: p.Prefix + "/holds", Number: len(refs), Refs: refs,
		Reason: v.form("reason"), Faults: v.faults,
	}
	for _, id := range ids {
		b.Lines = append(b.Lines, id.String())
	}
	return web.View{Page: "forcesome", Title: "Force release", Section: "holds", Body: b, Still: true}, nil
}

// errAsk shows the form without a fault.
var errAsk = &formFault{status: http.StatusOK}

// forceAll releases what was ticked: first it asks, and the number must be typed.
func (p *Pages) forceAll(ctx context.Context, v *visit) (string, error) {
	_, ids, fences, err := v.picked()
	if err != nil {
		return "", err
	}
	if !v.r.PostForm.Has("reason") {
		return "", errAsk
	}
	reason, _, faults := v.reasonAndBlock()
	if v.form("count") != strconv.Itoa(len(ids)) {
		faults = append(faults, fmt.Sprintf("Type %d, the number of holds, to confirm.", len(ids)))
	}
	if len(faults) > 0 {
		return "", wrong(faults...)
	}
	missed := 0
	for i := range ids {
		switch err := p.forceOne(ctx, v, ids[i], fences[i], reason, 0); {
		case err == nil:
		case endedMeanwhile(err) || isFault(err):
			missed++
		default:
			return "", err
		}
	}
	if missed > 0 {
		return "", &formFault{status: http.StatusConflict, says: []string{
			fmt.Sprintf("%d of %d had ended meanwhile and were left alone; the others were released.", missed, len(ids)),
		}}
	}
	return "/holds?done=forced-n", nil
}

func isFault(err error) bool { _, ok := errors.AsType[*formFault](err); return ok }

func readable(s string) bool { return s != "" && printable(s) }
