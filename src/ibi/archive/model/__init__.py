"""Items and their facts as values, and pure functions over them: relations, answers, access, formats, hand-overs.

No module here touches a database, a socket or a clock.

Entry points: `item.Holding`, `relations.ItemRelations`, `answer.url_list`, `access`.
"""
