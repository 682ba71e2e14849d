"""Words of the review generator: what a guest says of each aspect, and what says nothing of any.

A clause is a whole one, or a subject with a predicate ({was} agrees with it). `SUBJECTS`: aspect → singular ones,
plural ones. `PREDICATES` and `CLAUSES`: aspect → value → phrases. `REMARKS`: clauses on the visit as a whole, by mood.
"""
from __future__ import annotations


def _list(text: str) -> list[str]:
    return [" ".join(phrase.split()) for phrase in text.split(";")]


SUBJECTS = {
    "food": (_list("""
        the fish; my steak; the roast chicken; the pie; the stew; the rice; the curry; my main course; everything we
        ordered; the lamb; the duck"""),
        _list("the potatoes; the vegetables; the dumplings; the main dishes; the noodles; the small plates")),
    "service": (_list("""
        our waiter; our waitress; the young man who served us; the woman at the door; the owner; the head waiter;
        the girl at our table; the manager; the fellow who took our order"""),
        _list("the waiters; the people who work here; the staff; the two girls who served us; our hosts")),
    "ambiance": (_list("""
        the dining room; the whole place; the room upstairs; the garden; the front room; the house; the corner by
        the window; the terrace; the room where we sat; the little hall; the interior"""),
        _list("the rooms; the surroundings; the two dining rooms; the lights and the furniture")),
    "noise": (_list("""
        the sound level; the level of noise; the noise from the other tables; the music; the talk around us; the
        sound from the kitchen; the noise from the street; the hum of the room"""),
        _list("the voices around us; the sounds from the bar; the conversations next to us")),
}

PREDICATES = {
    "food": {
        "Positive": _list("""
            {was} full of flavour; {was} cooked just right; tasted fresh and light; {was} delicious from the first
            bite to the last; could not have been better; {was} worth every penny; came hot and well seasoned; {was}
            simply wonderful; {was} rich without being heavy; {was} a real pleasure to eat; {was} so good that we
            asked for more; {was} as good as my mother's cooking; {was} the best that I have had in years; {was}
            prepared with great care; {was} gone from the plates in no time; {was} done to perfection; had a lovely
            taste of herbs; {was} far from bland; {was} excellent; would please the hardest critic"""),
        "Negative": _list("""
            {was} cold in the middle; {was} burnt at the edges; had no taste at all; {was} far too salty; {was} dry
            and tough; tasted a day old; {was} greasy and heavy; {was} not fit to eat; {was} not even warm; {was} a
            great disappointment; {was} bland and watery; left a bitter taste; {was} worse than any hospital meal;
            {was} overcooked and grey; {was} nowhere near worth the price; tasted of nothing but salt; {was}
            swimming in oil; had clearly been heated up twice; {was} anything but fresh; would not tempt a hungry
            dog"""),
    },
    "service": {
        "Positive": _list("""
            {was} friendly from start to finish; could not have been kinder; {was} quick and polite; made us feel at
            home; answered every question with a smile; {was} there whenever we needed something; treated us like
            old friends; {was} never in a hurry with us; took good care of us; remembered us from our last visit;
            {was} full of good advice; brought everything at the right moment; {was} most attentive; {was} patient
            with the children; went out of the way to help us; thought of every little thing; {was} cheerful and
            willing; {was} never far away; {was} a credit to the house; earned every coin of the tip"""),
        "Negative": _list("""
            {was} rude to us; forgot half of our order; kept us waiting for an hour; {was} nowhere to be found;
            seemed to hate the job; never once smiled; brought us the wrong plates; looked through us as if we were
            air; {was} slow and careless; argued with us over the bill; {was} short with my mother; groaned at a
            simple question; ignored us all evening; {was} too busy talking to serve anyone; {was} anything but
            helpful; wanted us gone as soon as possible; had to be asked three times for water; {was} clumsy and
            cross; {was} less polite than a ticket machine; would not say sorry for anything"""),
    },
    "ambiance": {
        "Positive": _list("""
            {was} warm and inviting; {was} charming; looked like something from a picture book; {was} lovely in the
            candle light; had a great deal of character; {was} as pretty as could be; {was} decorated with real
            taste; made us want to stay all night; {was} bright and cheerful; {was} full of flowers; felt like an
            old friend's home; {was} clean and comfortable; {was} perfect for a first meeting; had just the right
            light; {was} beautiful to look at; put us in a good mood at once; {was} elegant without being stiff;
            {was} a joy to sit in; {was} snug and romantic; had a view that I shall not forget"""),
        "Negative": _list("""
            {was} dark and dirty; {was} as cold as a cellar; looked tired and shabby; had all the charm of a waiting
            room; {was} badly in need of paint; smelled of old smoke; {was} cramped and stuffy; {was} ugly beyond
            words; {was} lit like an operating theatre; made us feel like leaving; {was} full of broken chairs;
            {was} dull and bare; had stains wherever one looked; {was} more like a shed than a restaurant; {was}
            dreary; had not been swept for days; {was} gloomy even at noon; {was} without any comfort; {was} a sad
            sight; felt like the inside of a cupboard"""),
    },
    "noise": {
        "Positive": _list("""
            {was} low enough to talk; never disturbed us; {was} no more than a murmur; {was} pleasantly soft; {was}
            easy on the ears; let us hear every word; {was} hardly to be heard; {was} just right for a quiet talk;
            stayed low all evening; {was} gentle and far off; did not force anyone to shout; {was} kept down nicely;
            {was} as soft as in a library; {was} never too much; left us in peace; {was} calm and low; {was} no
            bother to my old father; could be forgotten at once; {was} soothing; {was} much softer than we had
            feared"""),
        "Negative": _list("""
            {was} unbearable; drowned every word we said; {was} loud enough to wake the dead; gave me a headache;
            made all talk impossible; {was} deafening; {was} far too loud; forced us to shout across the table;
            {was} a torment to the ears; never let up for a moment; {was} enough to drive us out; rang in my ears
            all night; {was} much too loud for a talk; {was} like thunder; {was} hard to bear for more than an hour;
            hurt my ears; reminded me of a fairground; {was} a constant nuisance; made me long for cotton wool;
            frightened the baby"""),
    },
}

CLAUSES = {
    "food": {
        "Positive": _list("""
            I would gladly eat the same meal tomorrow; every dish we tried was a success; the cook clearly knows his
            trade; we finished every plate to the last crumb; even the plainest dish had real flavour; I have rarely
            eaten so well; my wife asked for the recipe; dessert was the best thing I tasted all year; the chef
            deserves high praise; our plates went back empty; all of it tasted home-made and fresh; the children ate
            everything and wanted more; one could taste that everything was fresh that morning; the lamb fell off
            the bone; there was not a dull dish on the menu; they bake their own bread and it shows; we are still
            talking about the apple cake; the kitchen sends out first-rate dishes; what a splendid meal it was; the
            portions were generous and tasty"""),
        "Negative": _list("""
            I left most of my dinner on the plate; nobody at our table finished the meal; I have eaten better at a
            railway station; the cook must have been asleep; my wife sent her plate back twice; even the bread was
            stale; there was a hair in my soup; dessert came straight from a packet; we went home hungry rather than
            eat it; I felt ill after the fish; nothing tasted as it should; the meat was mostly fat; the vegetables
            came out of a tin; the eggs were runny and the toast was black; the kitchen should be ashamed of those
            dishes; I could not get past the second bite; they had forgotten to cook the rice through; the sauce
            looked and tasted like glue; the dishes were dear and tiny and tasteless; what a poor meal it was"""),
    },
    "service": {
        "Positive": _list("""
            we were shown to our table at once; nobody could ask for better service; our glasses were never empty;
            they gave my grandmother the best chair without being asked; every wish was granted before we spoke it;
            the order came quickly and without a mistake; we never had to wait; they helped us with our coats at the
            door; our waiter had a kind word for everyone; the service ran like clockwork; a small mistake in the
            bill was put right with an apology; they even brought a candle for my birthday; the service was
            outstanding; we felt welcome from the first step; someone was always at hand; they explained the whole
            menu to us with patience; I have seldom been served so well; the staff knew their work; they were kind
            to our little boy; the owner came over to thank us"""),
        "Negative": _list("""
            we waited forty minutes for the menu; nobody came to take our order; the service was dreadful; we had to
            fetch our own forks; they lost our booking and blamed us for it; our waiter spilled wine on my coat; the
            bill was wrong and nobody cared; someone cleared the plates while we were still chewing; our waitress
            sighed at each of our wishes; I had to stand up and look for someone to pay; the order came late and it
            was not ours; they served the table next to us first, twice; we were left standing at the door; one of
            the waiters laughed at my question; nobody thanked us or said goodbye; it took three requests to get a
            spoon; the service was slow beyond belief; they treated us like a burden; I have never been served so
            badly; our drinks came after the dessert"""),
    },
    "ambiance": {
        "Positive": _list("""
            there were fresh flowers on every table; we sat by a lovely open fire; old paintings hang on the walls;
            it is a beautiful old building; the candles made it feel like a feast; one feels at ease as soon as one
            sits down; it has the charm of a country inn; the chairs were soft and the linen was white; it is the
            prettiest place in town; the view over the river is worth the trip; everything about the look of it was
            tasteful; they have furnished it with love; I could have sat there for hours; the atmosphere was
            delightful; it is a fine place to bring someone you love; the terrace under the trees is a dream; it
            feels warm and cared for; the colours and the light were lovely; it has style; we loved the old beams
            and the wide windows"""),
        "Negative": _list("""
            one's sleeves stuck to the table; the paint was coming off the walls; there was dust on every shelf;
            nobody has cleaned that carpet in years; we sat between the door and the toilets; the chairs were
            broken; a cold draught blew on us all through dinner; the decoration was in poor taste; it looks like a
            place that has given up; a bare bulb hung over our table; the atmosphere was dismal; it smelled of wet
            dog; you cannot see through the dirty windows; there was no room for our legs; the walls were bare and
            grey; I have seen prettier garages; torn yellow curtains hang on one nail; it felt like sitting in a
            warehouse; the tablecloth had somebody else's dinner on it; the whole thing looked cheap and neglected"""),
    },
    "noise": {
        "Positive": _list("""
            we could talk without raising our voices; it was pleasantly quiet; I could hear my friends well; it is a
            good place for a quiet talk; nobody shouted and no music blared; one could hear a pin drop; the thick
            curtains keep all sound away; even with a full house it stayed quiet; my father, who is hard of hearing,
            understood us all; no loud music spoiled our talk; it was calm and still; a soft piano played somewhere;
            we were not disturbed by a single loud voice; it was quiet enough to whisper; we enjoyed the peace and
            quiet; the baby slept the whole time; all one heard was a little soft music; it was the quietest dinner
            I have had in this city; after a day in the city the quiet did us good; they keep the music low"""),
        "Negative": _list("""
            we had to shout to be heard; it was terribly loud; I could not hear my own wife; a party beside us
            screamed all evening; the music was turned up far too high; my ears were still ringing the next day; a
            drill was at work next door; it was like eating in a train station; we gave up talking after ten
            minutes; every chair scraped and every plate crashed; the din was dreadful; someone shouted orders
            without end; it was too noisy for us; children ran about and yelled; we read each other's lips; a band
            played right beside our table; the racket never stopped; we could not understand a word; there was a
            roar like that of a stadium; I have never been anywhere so loud"""),
    },
}

REMARKS = {
    1: _list("""
        we will certainly be back; I have told all my friends; it was one of our best evenings this year; we left in
        high spirits; I can only recommend it; it has become our favourite; we shall return soon; I was glad that we
        came; do go if you can; it was a lucky find"""),
    -1: _list("""
        we will not be back; I cannot recommend it; it was an evening to forget; we left in a bad mood; I would go
        somewhere else next time; never again; I am sorry that we came; it was a waste of time; do yourself a favour
        and stay away; I expected much more"""),
}

OPENINGS = _list("""
    we came on a Tuesday evening; I had dinner here with my sister; we were five people; this was our second visit;
    a friend had told us about it; we stopped here on our way home; it was my birthday; I came with two men from
    work; we had booked a table for eight o'clock; my parents were in town; we came for lunch on a rainy day; it was
    late when we sat down; I have lived around the corner for years; we had been at the theatre before; it was the
    last day of our holiday; we walked in without a booking""")

FILLERS = _list("""
    we stayed for about two hours; it is a short walk from the station; we paid in cash; it was a Friday; the menu
    is written on a board; they close at eleven; my brother had the same as I did; there is a second room for larger
    groups; we shared a bottle of wine; they open at noon; it was raining outside; you can leave your car behind the
    church; we were home by ten; it has been there since I was a child""")

AND = ["and", "and", "and also", "and besides,"]            # between clauses of one polarity
BUT = ["but", "but", "yet", "while", "although"]            # between clauses of two
